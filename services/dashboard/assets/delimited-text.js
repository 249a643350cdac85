// Tables as text (RFC 4180): how spreadsheets copy cells, and what a CSV file holds.

const FORMULA = /(^|[;,])(?=[=+\-@])/g;

/**
 * Returns the decimal sign of the browser's region, whose spreadsheets most likely open the file.
 */
const decimalSign = () => new Intl.NumberFormat(navigator.language).format(1.5)[1];

/**
 * Returns the text of a CSV file with these rows of numbers and texts.
 *
 * Where numbers have a decimal comma, as in German, spreadsheets expect semicolons between the
 * cells.
 */
export function writeDelimited(rows, decimal = decimalSign()) {
  const line = (cells) =>
    cells.map((cell) => written(cell, decimal)).join(decimal === "," ? ";" : ",");
  return `\ufeff${rows.map((cells) => `${line(cells)}\r\n`).join("")}`;
}

/**
 * Quotes a text. A spreadsheet reads neither it as a formula nor a part, split off at another
 * separator.
 */
function written(cell, decimal) {
  if (typeof cell === "number") return String(cell).replace(".", decimal);
  const text = cell.replaceAll(/[\t\r\n]+/g, " ").replaceAll(FORMULA, "$1'");
  return /[",;]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * Returns the rows of a table, each a list of cells.
 *
 * A cell in quotes may have line breaks and separators, and two quotes for one. A quote that begins
 * no such cell, as in a name, is a letter like others.
 */
export function readDelimited(text, separator = "\t") {
  /** @type {string[][]} */
  const rows = [[]];
  let at = 0;
  while (at <= text.length) {
    const quoted = text[at] === '"' ? endOfQuoted(text, at, separator) : -1;
    const end = quoted < 0 ? endOfPlain(text, at, separator) : quoted;
    const cell = text.slice(at, end);
    rows[rows.length - 1].push(quoted < 0 ? cell : cell.slice(1, -1).replaceAll('""', '"'));
    if (text[end] === separator) {
      at = end + 1;
      continue;
    }
    at = end + (text.startsWith("\r\n", end) ? 2 : 1);
    if (at < text.length) rows.push([]);
    else break;
  }
  return rows;
}

function endOfPlain(text, from, separator) {
  let end = from;
  while (end < text.length && text[end] !== separator && !"\r\n".includes(text[end])) end += 1;
  return end;
}

/** Returns the position after the closing quote; -1 if the cell does not end there. */
function endOfQuoted(text, from, separator) {
  let end = from + 1;
  while (end < text.length) {
    const close = text.indexOf('"', end);
    if (close < 0) return -1;
    if (text[close + 1] !== '"') {
      const after = text[close + 1];
      return after === undefined || after === separator || "\r\n".includes(after) ? close + 1 : -1;
    }
    end = close + 2;
  }
  return -1;
}
