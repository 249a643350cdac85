// The shown result as a table (CSV) and as a picture (PNG).

import { writeDelimited } from "../delimited-text.js";
import { save } from "../page-elements.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

const WIDTH = 1600;
const ROW = 90;
const HEAD = 190;

/** `result` has `title`, `counts`, `time`, `rows` as the ranking's, and `isFinal`. */
export function saveCsv(result) {
  const isRated = result.counts.contest_type === "rating";
  const head = [
    "rank",
    "participant",
    "key",
    "count",
    "share",
    "voters",
    ...(isRated ? ["average", "distribution"] : []),
  ];
  const lines = result.rows.map((row) => [
    row.rank ?? "",
    row.name,
    row.key,
    row.count,
    result.counts.count > 0 ? Number((row.count / result.counts.count).toFixed(6)) : 0,
    row.voters,
    ...(isRated ? [row.average < 0 ? "" : row.average, distribution(row.values)] : []),
  ]);
  save(
    new Blob([writeDelimited([head, ...lines])], { type: "text/csv" }),
    `${fileName(result)}.csv`,
  );
}

const distribution = (values) =>
  Object.entries(values ?? {})
    .map(([value, count]) => `${value}:${count}`)
    .join(" ");

export function savePng(result) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDTH, HEAD + ROW * result.rows.length + 40];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const style = getComputedStyle(document.body);
  const colour = resolved;
  const font = (size, weight = 400) => `${weight} ${size}px ${style.fontFamily}`;
  /** @type {(value: string, x: number, y: number, type: string, ink?: string, align?: CanvasTextAlign, most?: number) => void} */
  const text = (value, x, y, type, ink = "--ink", align = "left", most = undefined) => {
    [context.font, context.fillStyle, context.textAlign] = [type, colour(`var(${ink})`), align];
    context.fillText(value, x, y, most);
  };
  context.fillStyle = colour("var(--panel)");
  context.fillRect(0, 0, canvas.width, canvas.height);
  text(result.title, 60, 90, font(52, 700), "--ink", "left", WIDTH - 120);
  const kind = result.isFinal ? t("Final") : t("Provisional");
  const total = words.plural(result.counts.count, words.units(result.counts.contest_type));
  text(`${kind} · ${total} · ${words.date(result.time)}`, 60, 145, font(28), "--ink-soft");
  result.rows.forEach((row, at) => {
    const y = HEAD + at * ROW;
    text(String(row.rank ?? ""), 110, y + 45, font(34, 700), "--ink-soft", "right");
    text(row.name, 140, y + 32, font(30, 600), "--ink", "left", WIDTH - 520);
    context.fillStyle = colour("var(--raised)");
    context.fillRect(140, y + 46, WIDTH - 500, 18);
    context.fillStyle = colour(row.colour);
    context.fillRect(140, y + 46, (WIDTH - 500) * row.part, 18);
    text(row.figure, WIDTH - 60, y + 34, font(34, 700), "--ink", "right");
    text(row.note, WIDTH - 60, y + 64, font(22), "--ink-soft", "right");
  });
  canvas.toBlob((blob) => save(blob, `${fileName(result)}.png`), "image/png");
}

function resolved(words) {
  const probe = document.createElement("span");
  probe.style.color = words;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

const fileName = ({ title, time }) =>
  [
    title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60),
    new Date(time).toISOString().slice(0, 16).replace(":", ""),
  ].join("-");
