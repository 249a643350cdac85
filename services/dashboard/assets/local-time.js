// The times of `datetime-local` fields: local ones, of which some occur twice a year, and some
// never.

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Returns the local time of a moment (ms) as a field shows it, to the second. */
export function localText(moment) {
  const at = Math.floor(moment / 1_000) * 1_000;
  return new Date(at - new Date(at).getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 19);
}

/**
 * Returns the moments (ms) that have this local time, in order: two where clocks go back, none
 * where they go forward.
 */
export function momentsOf(text) {
  const asUtc = Date.parse(`${text}Z`);
  if (Number.isNaN(asUtc)) return [];
  const offsetAt = (moment) => new Date(moment).getTimezoneOffset() * MINUTE_MS;
  const offsets = new Set([asUtc - DAY_MS, asUtc + DAY_MS].map(offsetAt));
  const moments = [...offsets].map((offset) => asUtc + offset);
  return moments
    .filter((moment) => moment - offsetAt(moment) === asUtc)
    .sort((one, other) => one - other);
}

/** Returns a moment's distance from UTC as a text, such as "UTC+1". */
export function offsetText(moment) {
  const minutes = -new Date(moment).getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const after = rest ? `:${String(rest).padStart(2, "0")}` : "";
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${after}`;
}
