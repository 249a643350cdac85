// Titles and pictures, from the stream's `details` events.

const picture = (image) => (image?.key ? `/media/image/${encodeURIComponent(image.key)}?size=thumb` : "");

/** The participants of one contest, and its own title and picture. */
export class Participants {
  #people = new Map();
  title = "";
  image = "";
  seal = null;
  corrections = [];

  /** Takes over the data of a `details` event. */
  update({ title, image, seal, corrections, participants }) {
    this.title = title ?? "";
    this.image = picture(image);
    this.seal = seal;
    this.corrections = corrections ?? [];
    this.#people = new Map(
      Object.entries(participants).map(([key, { title: name, image: face, color, running_number: order }]) => [
        key,
        { key, name: name || `No. ${order}`, image: picture(face), color, order },
      ]),
    );
  }

  /** `{key, name, image, color, order}` of all, by number. */
  get all() {
    return [...this.#people.values()].toSorted((a, b) => a.order - b.order);
  }

  /** Returns the participant of this key; one that is not known is named by the key. */
  of(key) {
    return this.#people.get(key) ?? { key, name: key, image: "", order: Infinity };
  }
}
