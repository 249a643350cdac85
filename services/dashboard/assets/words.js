// Formats numbers and times for people.

const whole = new Intl.NumberFormat("en");
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const hundredths = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });

/** What a contest's counts are called, by its type. */
const UNITS = { rating: ["rating", "ratings"], ordering: ["point", "points"] };
export const units = (type) => UNITS[type] ?? ["vote", "votes"];
export const capital = (word) => word[0].toUpperCase() + word.slice(1);

export const PHASES = { setup: "In setup", announced: "Announced", running: "Running", finished: "Finished" };

export const number = (value) => whole.format(value);
export const compact = (value) => short.format(value);
export const decimal = (value) => tenths.format(value);
export const precise = (value) => hundredths.format(value);
export const share = (part, of) => `${tenths.format(of > 0 ? (100 * part) / of : 0)} %`;
export const plural = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;
export const time = (ms) => clock.format(ms);
export const date = (ms) => day.format(ms);

/** Formats a duration as briefly as possible: "2 d 3 h", "12:04". */
export function span(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  const two = (value) => String(value).padStart(2, "0");
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours}:${two(minutes)}:${two(seconds % 60)}`;
  return `${minutes}:${two(seconds % 60)}`;
}

/** Formats the approximate time since then. */
export function ago(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 2) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `${span(ms)} ago`;
}

/** Returns two letters for a participant without a picture. */
export function initials(name) {
  const words = name.split(/[\s-]+/u).filter((word) => /^[\p{L}\p{N}]/u.test(word));
  const letters = words.length > 1 ? [words[0], words.at(-1)].map((word) => [...word][0]) : [...(words[0] ?? "?")].slice(0, 2);
  return letters.join("").toUpperCase();
}
