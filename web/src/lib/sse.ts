/** One dispatched server-sent event (https://html.spec.whatwg.org/multipage/server-sent-events.html). */
export interface Frame {
  id: string | null;
  event: string;
  data: string;
}

/**
 * Parser of an event stream, fed with decoded text in pieces of any size. Comments are dropped, `data` lines
 * are joined by newlines, and a frame comes out at each blank line. `id` is null where the frame carried none.
 */
export class FrameParser {
  #rest = "";
  #skipLineFeed = false;
  #id: string | null = null;
  #event = "";
  #data: string[] = [];

  push(text: string): Frame[] {
    const frames: Frame[] = [];
    let piece = text;
    if (this.#skipLineFeed && piece.startsWith("\n")) piece = piece.slice(1);
    if (piece) this.#skipLineFeed = piece.endsWith("\r");
    const lines = (this.#rest + piece).split(/\r\n|\r|\n/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const frame = line === "" ? this.#dispatch() : this.#field(line);
      if (frame) frames.push(frame);
    }
    return frames;
  }

  #field(line: string): null {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    return null;
  }

  #dispatch(): Frame | null {
    const frame =
      this.#data.length || this.#event
        ? { id: this.#id, event: this.#event || "message", data: this.#data.join("\n") }
        : null;
    this.#id = null;
    this.#event = "";
    this.#data = [];
    return frame;
  }
}

/** Frames of a response body, as they arrive. `onBytes` is called for every piece, comments included. */
export async function* frames(
  body: ReadableStream<Uint8Array>,
  onBytes: () => void = () => undefined,
): AsyncGenerator<Frame> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new FrameParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes();
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
