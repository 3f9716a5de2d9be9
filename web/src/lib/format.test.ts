import { describe, expect, it } from "vitest";
import { between, clock, count, duration, measure, plain, tick } from "./format";

describe("numbers", () => {
  it.each([
    [1.83214, "1.832"],
    [0, "0.000"],
    [0.0000123, "1.23e-5"],
    [1234567, "1.23e6"],
    [NaN, "not finite"],
    [Infinity, "not finite"],
    [null, "–"],
  ])("measure(%s) is %s", (value, words) => {
    expect(measure(value)).toBe(words);
  });

  it.each([
    [0.25, "0.25"],
    [1200, "1200"],
    [20000, "20K"],
    [0.00001, "1e-5"],
  ])("tick(%s) is %s", (value, words) => {
    expect(tick(value)).toBe(words);
  });
});

describe("counts", () => {
  it("agree with their number", () => {
    expect([0, 1, 2, 1234].map((number) => count(number, "event"))).toEqual([
      "0 events",
      "1 event",
      "2 events",
      "1,234 events",
    ]);
  });
});

describe("durations", () => {
  it.each([
    [0.85, "850 ms"],
    [12.44, "12.4 s"],
    [59.99, "1 m 00 s"],
    [185, "3 m 05 s"],
    [7620, "2 h 07 m"],
    [273_600, "3 d 4 h"],
    [-3, "0 ms"],
    [NaN, "–"],
  ])("duration(%s) is %s", (seconds, words) => {
    expect(duration(seconds)).toBe(words);
  });

  it("of values that tick are whole seconds", () => {
    expect(clock(59.6)).toBe("1 m 00 s");
    expect(clock(8.2)).toBe("8 s");
  });

  it("come from server times, whatever their zones", () => {
    expect(between("2026-01-01T00:00:00.250Z", "2026-01-01T01:00:01.250+01:00")).toBe(1);
    expect(between(null, "2026-01-01T00:00:00Z")).toBeNaN();
  });
});

describe("plain", () => {
  it("takes terminal codes away and shows what else is not text", () => {
    expect(plain("\u001b[31mred\u001b[0m \u001b]0;title\u0007done")).toBe("red done");
    expect(plain("a\u202Eb\u0000c")).toBe("a\ufffdb\ufffdc");
    expect(plain("line\n\ttab 👩‍👧")).toBe("line\n\ttab 👩‍👧");
  });

  it("shortens", () => {
    expect(plain("abcdef", 3)).toBe("abc…");
  });
});
