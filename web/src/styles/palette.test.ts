import { describe, expect, it } from "vitest";
import css from "./base.css?raw";

type Colour = [red: number, green: number, blue: number];

const [light = "", dark = ""] = [...css.matchAll(/:root \{([^}]*)\}/g)].map((found) => found[1]);
const tokens = (block: string): Map<string, Colour> =>
  new Map(
    [...block.matchAll(/--([a-z-]+): #([0-9a-f]{6});/g)].map(([, name = "", hex = ""]) => [
      name,
      [0, 2, 4].map((from) => parseInt(hex.slice(from, from + 2), 16) / 255) as Colour,
    ]),
  );

const linear = (value: number): number => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);

function luminance(colour: Colour): number {
  const [red, green, blue] = colour.map(linear) as Colour;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** Contrast ratio of WCAG 2.2. */
function contrast(a: Colour, b: Colour): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

type Matrix = [Colour, Colour, Colour];
/** Full colour blindness as matrices over linear RGB (Machado, Oliveira and Fernandes, 2009). */
const SIGHTS: Record<string, Matrix> = {
  usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

const dot = (row: Colour, colour: Colour): number => row[0] * colour[0] + row[1] * colour[1] + row[2] * colour[2];

/** CIE L*a*b* (D65) of a colour as it is seen. */
function lab(colour: Colour, sight: Matrix): Colour {
  const rgb = colour.map(linear) as Colour;
  const seen = sight.map((row) => Math.min(1, Math.max(0, dot(row, rgb)))) as Colour;
  const f = (value: number): number => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
  const x = f(dot([0.4124, 0.3576, 0.1805], seen) / 0.95047);
  const y = f(dot([0.2126, 0.7152, 0.0722], seen));
  const z = f(dot([0.0193, 0.1192, 0.9505], seen) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

describe.each([
  ["light", tokens(light)],
  ["dark", tokens(dark)],
])("%s colours", (_, colours) => {
  const get = (name: string): Colour => {
    const colour = colours.get(name);
    if (!colour) throw new Error(`no colour --${name}`);
    return colour;
  };

  it.each([
    ...["ink", "muted", "link", "train", "val", "danger"].flatMap((text) =>
      ["bg", "surface", "sunken"].map((ground) => [text, ground]),
    ),
    ["ok", "ok-tint"],
    ["warn", "warn-tint"],
    ["danger", "danger-tint"],
    ["link", "tint"],
    ["on-accent", "accent"],
    ["warn", "bg"],
  ])("%s can be read on %s", (text = "", ground = "") => {
    expect(contrast(get(text), get(ground))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(["control", "focus", "train", "val"])("%s stands out from what it lies on", (line) => {
    for (const ground of ["bg", "surface"]) expect(contrast(get(line), get(ground))).toBeGreaterThanOrEqual(3);
  });

  it.each(Object.entries(SIGHTS))("tell the two curves apart with %s sight", (_name, sight) => {
    const [train, val] = [lab(get("train"), sight), lab(get("val"), sight)];
    expect(Math.hypot(...train.map((value, index) => value - (val[index] as number)))).toBeGreaterThanOrEqual(14);
  });
});
