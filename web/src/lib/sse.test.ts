import { describe, expect, it } from "vitest";
import { FrameParser, frames, type Frame } from "./sse";

const STREAM =
  ": hello\n\nid: 1\nevent: state\ndata: {\"a\":1}\n\nretry: 2000\n\nevent: end\ndata\n\ndata: one\ndata:  two\n\n: ping\n\nid: 9\ndata: ü✓\n\n";
const EXPECTED: Frame[] = [
  { id: "1", event: "state", data: '{"a":1}' },
  { id: null, event: "end", data: "" },
  { id: null, event: "message", data: "one\n two" },
  { id: "9", event: "message", data: "ü✓" },
];

describe("FrameParser", () => {
  it.each(["\n", "\r\n", "\r"])("gives the same frames for pieces of every size (line end %j)", (end) => {
    const text = STREAM.replaceAll("\n", end);
    for (let size = 1; size <= text.length; size += 1) {
      const parser = new FrameParser();
      const found: Frame[] = [];
      for (let from = 0; from < text.length; from += size) found.push(...parser.push(text.slice(from, from + size)));
      expect(found).toEqual(EXPECTED);
    }
  });

  it("drops a frame that was not finished", () => {
    expect(new FrameParser().push("id: 4\ndata: lost\n")).toEqual([]);
  });
});

describe("frames", () => {
  it("decodes characters that are cut between pieces", async () => {
    const bytes = new TextEncoder().encode(STREAM);
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const found: Frame[] = [];
    for await (const frame of frames(body)) found.push(frame);
    expect(found).toEqual(EXPECTED);
  });
});
