/** An event with data or an id. */
export interface Event {
  type: string;
  /** Id of this event, or of the last one before it that has an id; empty: none has one. */
  id: string;
  /** null: the event has only an id. */
  data: string | null;
}

/** Size of the largest event that is read, in characters. */
const eventLength = 16 << 20;

/**
 * Reads server-sent events from a stream whose text comes in parts. An event without its blank line is not complete.
 */
export class EventReader {
  #rest = "";
  #lastId = "";
  #type = "";
  #id = "";
  #data: string[] = [];
  #length = 0; // of the data

  /** Returns the events that the next part completes. */
  *feed(part: string): Generator<Event> {
    let begin = 0;
    // a line break before the part would have ended the rest
    for (let end = part.indexOf("\n"); end >= 0; end = part.indexOf("\n", begin)) {
      const line = this.#rest + part.slice(begin, end);
      this.#rest = "";
      begin = end + 1;
      const event = this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (event) yield event;
    }
    this.#rest += part.slice(begin);
    if (this.#rest.length + this.#length > eventLength) {
      throw new RangeError(`an event has more than ${eventLength} characters`);
    }
  }

  /** Returns the event that a blank line ends. */
  #line(line: string): Event | null {
    if (line === "") {
      let event: Event | null = null;
      if (this.#data.length > 0 || this.#id !== this.#lastId) {
        event = { type: this.#type, id: this.#id, data: this.#data.length > 0 ? this.#data.join("\n") : null };
      }
      this.#lastId = this.#id;
      this.#type = "";
      this.#data = [];
      this.#length = 0;
      return event;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon); // a comment has an empty name
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (name === "event") this.#type = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "data") {
      this.#data.push(value);
      this.#length += value.length + 1; // with its line break
    }
    return null;
  }
}
