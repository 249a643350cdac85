// Colours of participants: each has its own, by its number in the contest, independent of its rank.

export const COLOURS = 12;

/** Returns the name of the participant's colour in the style sheet. */
export const colourOf = (person) => `--series-${Number.isFinite(person.order) ? ((person.order + COLOURS - 1) % COLOURS) + 1 : "none"}`;
