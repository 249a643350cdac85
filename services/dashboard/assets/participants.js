// Titles and pictures, from the stream's `details` events.

const picture = (image) =>
  image?.key ? `/media/image/${encodeURIComponent(image.key)}?size=thumb` : "";

/** The participants of one contest, and its own title and picture. */
export class Participants {
  #people = new Map();
  title = "";
  image = "";
  seal = null;
  corrections = [];

  /** Takes over the data of a `details` event. */
  update({ title, image, seal, corrections, running_order: keys, participants }) {
    this.title = title ?? "";
    this.image = picture(image);
    this.seal = seal;
    this.corrections = corrections ?? [];
    this.#people = new Map(
      keys.map((key, order) => {
        const { title: name, image: face, color, running_number: number } = participants[key];
        return [
          key,
          { key, name: name || `No. ${number}`, image: picture(face), color, number, order },
        ];
      }),
    );
  }

  /** `{key, name, image, color, number, order}` of all, in running order. */
  get all() {
    return [...this.#people.values()];
  }

  /** Returns the participant of this key; one that is not known is named by the key. */
  of(key) {
    return this.#people.get(key) ?? { key, name: key, image: "", order: Infinity };
  }
}
