// The order of the participants, and the text to share.

/** Returns the participants as the contest wants them shown: shuffled by a `seed`, else as the results list them. */
export function arranged(participants, results, seed = null) {
  const places = new Map((results?.participants ?? []).map(({ participant_key: key }, at) => [key, at]));
  const place = ({ participant_key: key }) => (seed === null ? (places.get(key) ?? places.size) : hashed(`${seed} ${key}`));
  return [...participants].sort((one, other) => place(one) - place(other));
}

/** Returns the text to share: the best `top` participants, -1 for all, if the counts are seen; and the page's address. */
export function sharedText({ title, results, top, nameOf, address }) {
  const listed = results?.count ? [...results.participants].sort((one, other) => one.rank - other.rank) : [];
  const best = top < 0 ? listed : listed.slice(0, top);
  return [title, ...best.map(({ participant_key: key, rank }) => `${rank}. ${nameOf(key)}`), address].join("\n");
}

/** A number of 32 bits that looks random and is the same for the same text (FNV-1a, mixed as murmur3 does). */
function hashed(text) {
  let state = 0x811c9dc5;
  for (const letter of text) state = Math.imul(state ^ letter.codePointAt(0), 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}
