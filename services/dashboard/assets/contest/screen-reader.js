// Announces the lead to screen readers, at most every 15 s, and the final result at once.

import { ahead } from "../participant-ranks.js";
import { write } from "../page-elements.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

const SAY_MS = 15_000;

export class Announcements {
  #said = "";
  #saidAt = 0;

  /** Announces `places`, of which `nameOf(key)` returns the names. */
  say(places, counts, nameOf, isFinal) {
    const [first, second] = places;
    if (!first || first.count === 0) return;
    if (!isFinal && performance.now() - this.#saidAt < SAY_MS) return;
    const text = isFinal ? result(places, counts, nameOf) : lead(first, second, counts, nameOf);
    if (text === this.#said) return;
    this.#said = text;
    this.#saidAt = performance.now();
    write("said", text);
  }

  /** Discards the last announcement, since the counts are hidden now. */
  forget() {
    this.#said = "";
    write("said", "");
  }
}

function score(place, counts) {
  const n = words.plural(place.count, words.units(counts.contest_type));
  if (counts.contest_type !== "rating") return n;
  return t("an average of {average} from {n}", { average: words.precise(place.average), n });
}

function lead(first, second, counts, nameOf) {
  const values = {
    first: nameOf(first.key),
    score: score(first, counts),
    second: second ? nameOf(second.key) : "",
  };
  if (second?.rank === 1) return t("{first} and {second} are level with {score}.", values);
  if (!second) return t("{first} leads with {score}.", values);
  return t("{first} leads with {score}, {ahead} ahead of {second}.", {
    ...values,
    ahead: ahead(first, second, counts),
  });
}

function result(places, counts, nameOf) {
  const winners = places.filter((place) => place.rank === 1).map((place) => nameOf(place.key));
  return t("Final result: {winners} with {score}.", {
    winners: winners.join(", "),
    score: score(places[0], counts),
  });
}
