import { describe, expect, it } from "vitest";
import { groupAt, History } from "./history";
import type { JobEvent } from "./types";

const START = Date.parse("2026-01-01T00:00:00Z");

function event(seq: number, type: string, data: Record<string, unknown>, attempt = 1): JobEvent {
  return { seq, type, time: new Date(START + seq * 1000).toISOString(), attempt, data };
}

const metric = (seq: number, steps: number[], values: Record<string, (number | null)[]>, more = {}, attempt = 1) =>
  event(seq, "metric", { steps, values, ...more }, attempt);

describe("History", () => {
  it("applies each event once and counts what is missing", () => {
    const history = new History();
    const events = [1, 2, 3, 4].map((seq) => metric(seq, [seq], { loss: [seq] }));
    for (const each of [...events.slice(0, 3), ...events]) history.apply(each);
    expect(history.received).toBe(4);
    expect(history.missing).toBe(0);
    expect([...history.curve("loss").values.view]).toEqual([1, 2, 3, 4]);
    history.apply(metric(7, [7], { loss: [7] }));
    expect(history.missing).toBe(2);
  });

  it("tells absent values from those that were not finite", () => {
    const history = new History();
    history.apply(
      metric(1, [1, 2, 3], { loss: [4, null, 3], val_loss: [null, 5, null] }, { nonfinite: ["loss"] }),
    );
    expect([...history.curve("loss").values.view]).toEqual([4, NaN, 3]);
    expect([...history.curve("val_loss").steps.view]).toEqual([2]);
    expect(history.nonFinite).toEqual([{ name: "loss", step: 2 }]);
  });

  it("spreads the times of a flush over its steps", () => {
    const history = new History();
    history.apply(event(1, "state", { state: "running" }));
    history.apply(metric(3, [1, 2], { loss: [4, 3] }));
    expect([...history.curve("loss").times.view]).toEqual([START + 2000, START + 3000]);
  });

  it("joins the curve of an attempt that resumed from an earlier step", () => {
    const history = new History();
    history.apply(metric(1, [1, 2, 3, 4, 5], { loss: [5, 4, 3, 2, 1] }));
    history.apply(event(2, "sample", { step: 4, prompt: "a", text: "lost" }));
    history.apply(metric(3, [4, 5, 6], { loss: [20, 10, 0] }, {}, 2));
    expect([...history.curve("loss").steps.view]).toEqual([1, 2, 3, 4, 5, 6]);
    expect([...history.curve("loss").values.view]).toEqual([5, 4, 3, 20, 10, 0]);
    expect(history.samples).toEqual([]);
    expect(history.resumes).toEqual([4]);
  });

  it("groups the samples of a step and finds them by step", () => {
    const history = new History();
    for (const [seq, step] of [0, 0, 100, 200].entries()) {
      history.apply(event(seq + 1, "sample", { step, prompt: "p", text: `t${String(seq)}` }));
    }
    expect(history.samples.map((group) => [group.step, group.texts.length])).toEqual([
      [0, 2],
      [100, 1],
      [200, 1],
    ]);
    expect([-5, 0, 99, 100, 1e9].map((step) => groupAt(history.samples, step))).toEqual([0, 0, 0, 1, 2]);
    expect(groupAt([], 3)).toBe(-1);
  });

  it("gathers tokens by completion", () => {
    const history = new History();
    history.apply(event(1, "token", { tokens: [{ text: "a", id: 1, logprob: -1 }, { text: "b", id: 2 }] }));
    history.apply(event(2, "token", { text: "c", index: 1 }));
    expect(history.completions.map((tokens) => tokens.map((token) => token.text).join(""))).toEqual(["ab", "c"]);
  });

  it("survives data of the wrong shape", () => {
    const history = new History();
    for (const [index, type] of ["state", "metric", "sample", "log", "checkpoint", "stage", "token", "?"].entries()) {
      history.apply(event(index + 1, type, { steps: "x", values: null, tokens: 3, step: {} }));
    }
    expect(history.received).toBe(8);
  });
});
