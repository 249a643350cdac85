// Titles and pictures, from the stream's `details` events.

import { t } from "./texts.js";

const picture = (image) =>
  image?.key ? `/media/image/${encodeURIComponent(image.key)}?size=thumb` : "";

/** The participants of one contest, and its own title and picture. */
export class Participants {
  #people = new Map();
  title = "";
  image = "";
  /** @type {{sha256: string, sealed_at: string} | null} */
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
        const { title, image, color, running_number: number, number_string } = participants[key];
        const name = title || t("No. {n}", { n: number_string });
        const face = { name, image: picture(image), label: number_string };
        return [key, { key, ...face, color, number, order }];
      }),
    );
  }

  /**
   * `{key, name, image, label, color, number, order}` of all, in running order: `label` is the number
   * that people see, `number` the one that gives the colour.
   */
  get all() {
    return [...this.#people.values()];
  }

  /** Returns the participant of this key; one that is not known is named by the key. */
  of(key) {
    return this.#people.get(key) ?? { key, name: key, image: "", order: Infinity };
  }
}
