// The studio: creates a contest, or changes one, by the public API alone.

import { element } from "../page-elements.js";
import { make } from "../keyed-elements.js";
import { start } from "../shell.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";
import { saveCsv } from "../contest/export.js";
import { placesOf } from "../participant-ranks.js";
import { Acts, dataUrl, upload } from "./acts.js";
import { Control } from "./control.js";
import { read, said, serviceTime, write } from "./requests.js";
import { bodyOf, fill, fillTimes, follow } from "./rules.js";

const WRITE = "content:write";
const MOST_ON_WALL = 12;
const form = element("contest");
const key = location.pathname.endsWith("/edit") ? decodeURIComponent(location.pathname.split("/")[3]) : "";
let contest = null;
let acts = null;
let control = null;

const who = await start();
if (who.permissions.includes(WRITE)) await openStudio();
else {
  element("missing").textContent = t("This page needs an API key with the permission {name}.", { name: WRITE });
  element("missing").hidden = false;
}

async function openStudio() {
  element("zone").textContent = t("Times are those of this device ({zone}).", { zone: words.zone() });
  form.addEventListener("input", () => ((form.dataset.edited = "yes"), follow(form), preview()));
  form.addEventListener("submit", save);
  element("picture").addEventListener("change", async ({ target: { files } }) => files[0] && showPicture(await dataUrl(files[0])));
  if (key) {
    try {
      contest = (await read(`/contests/${encodeURIComponent(key)}`)).body;
    } catch (error) {
      report(said(error));
      return;
    }
  }
  fill(form, contest);
  element("studio").hidden = false;
  if (contest) await edit();
}

/** Shows what belongs to a contest that exists. */
async function edit() {
  element("beside").hidden = false;
  element("links").hidden = false;
  element("save-csv").addEventListener("click", saveTable);
  element("show-page").href = `/dashboard/contests/${encodeURIComponent(key)}`;
  element("save").textContent = t("Save the contest");
  control = new Control(key, who.permissions, { report, changed: shown });
  acts = new Acts(key, { report, ordered: shown, changed: preview, judged: () => control.previewReopening(), hasBegun: () => ["running", "finished"].includes(contest.phase), isOver: () => contest.phase === "finished" });
  await shown(contest);
  try {
    await acts.load(contest);
  } catch (error) {
    report(said(error));
  }
}

async function shown(changed) {
  contest = changed;
  element("heading").textContent = contest.title || key;
  document.title = `${contest.title || key} · Tallykeeper`;
  if (!element("picture").files.length) showPicture(contest.image?.key ? `/media/image/${encodeURIComponent(contest.image.key)}?size=thumb` : "");
  if (form.dataset.edited) fillTimes(form, contest);
  else fill(form, contest);
  await control.show(contest);
  acts.show();
}

async function save(event) {
  event.preventDefault();
  report("");
  element("save").disabled = true;
  try {
    if (!contest) {
      const made = await write("POST", "/contests", await body());
      location.assign(`/dashboard/contests/${encodeURIComponent(made.key)}/edit`);
      return;
    }
    const changes = await body();
    if (contest.phase === "finished") delete changes.contest_config.start, delete changes.contest_config.end;
    const saved = await write("PATCH", `/contests/${encodeURIComponent(key)}`, changes);
    element("picture").value = "";
    delete form.dataset.edited;
    await shown(saved);
    tell(t("Saved."));
  } catch (error) {
    report(said(error));
  } finally {
    element("save").disabled = false;
  }
}

/** Returns the contest that the form describes, with the picture that was chosen, which is stored first. */
async function body() {
  const [file] = element("picture").files;
  const image = file ? { image: { key: await upload(file) } } : {};
  return { ...bodyOf(form), ...image };
}

function showPicture(address) {
  element("picture-shown").hidden = !address;
  if (address) element("picture-shown").src = address;
}

/** Saves the present result as a table. */
async function saveTable() {
  report("");
  try {
    const { body: counts } = await read(`/contests/${encodeURIComponent(key)}/vote_updates?details=true`);
    const people = counts.participants;
    const rows = placesOf(counts, (act) => counts.running_order.indexOf(act)).map((place) => ({ ...place, name: people[place.key].title ?? "" }));
    saveCsv({ title: counts.title ?? "", counts, rows, time: serviceTime() });
  } catch (error) {
    report(said(error));
  }
}

function shownActs() {
  return (acts?.items ?? []).filter((item) => item.record?.status !== "rejected");
}

/** Draws the voting page and a wall with what the forms hold. */
function preview() {
  const type = form.elements.contest_type.value;
  const button = { rating: t("Rate"), ordering: "" }[type] ?? t("Vote");
  const rows = shownActs().map((item) => {
    const picture = item.picture ? make("img", { src: item.picture, alt: "" }) : "";
    return make("div", { className: "phone-act" }, picture, make("strong", {}, item.title || "…"), button ? make("span", { className: "phone-button" }, button) : "");
  });
  const title = () => make("strong", { className: "phone-title" }, form.elements.title.value || "…");
  const about = form.elements.description.value;
  element("preview").replaceChildren(title(), ...(about ? [make("p", {}, about)] : []), ...rows);
  const faces = shownActs().map((item) => make("div", { className: "phone-act" }, item.picture ? make("img", { src: item.picture, alt: "" }) : "", make("strong", {}, item.title || "…")));
  element("wall-preview").replaceChildren(title(), make("div", { className: "screen-acts" }, ...faces.slice(0, MOST_ON_WALL)));
}

function report(text) {
  element("trouble").textContent = text;
  element("trouble").hidden = !text;
  tell("");
  if (text) element("trouble").scrollIntoView({ block: "nearest" });
}

function tell(text) {
  element("done").textContent = text;
  element("done").hidden = !text;
}
