// The studio: creates a contest, or changes one, by the public API alone.

import { element } from "../page-elements.js";
import { make } from "../keyed-elements.js";
import { start } from "../shell.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";
import { saveCsv } from "../contest/export.js";
import { placesOf } from "../participant-ranks.js";
import { noteWrites, read, recordAt, said, write } from "../requests.js";
import { RecordForm } from "../record-form.js";
import { clock } from "../service-clock.js";
import { Acts, dataUrl, upload } from "./acts.js";
import { showConflicts } from "./conflicts.js";
import { Control } from "./control.js";
import { showLine } from "./curl-lines.js";
import { contestFields } from "./fields.js";
import { RulesForm } from "./rules.js";

const WRITE = "content:write";
const WALL_PX = 1920;
const FIELDS = contestFields((n) => t("Place {n}", { n }));
const form = element("contest");
const rules = new RulesForm(form);
const key = location.pathname.endsWith("/edit")
  ? decodeURIComponent(location.pathname.split("/")[3])
  : "";
const path = `/contests/${encodeURIComponent(key)}`;
let contest = new RecordForm(FIELDS);
let acts = null;
let control = null;

noteWrites(showLine);
const who = await start();
if (who.permissions.includes(WRITE)) await openStudio();
else {
  element("missing").textContent = t("This page needs an API key with the permission {name}.", {
    name: WRITE,
  });
  element("missing").hidden = false;
}

async function openStudio() {
  element("zone").textContent = t("Times are those of this device ({zone}).", {
    zone: words.zone(),
  });
  form.addEventListener("input", () => {
    rules.read(contest);
    preview();
  });
  form.addEventListener("submit", save);
  element("picture").addEventListener("change", async () => {
    const [file] = element("picture").files;
    if (file) showPicture(await dataUrl(file));
  });
  if (key) {
    try {
      const { body, etag } = await read(path);
      contest = new RecordForm(FIELDS, body, etag);
    } catch (error) {
      report(said(error));
      return;
    }
  }
  rules.show(contest, contest.names);
  element("studio").hidden = false;
  if (key) await edit();
}

/** Shows what belongs to a contest that exists. */
async function edit() {
  element("beside").hidden = false;
  element("links").hidden = false;
  element("save-csv").addEventListener("click", saveTable);
  element("show-page").href = `/dashboard${path}`;
  element("save").textContent = t("Save the contest");
  control = new Control(contest, key, who.permissions, { report, changed: follow });
  acts = new Acts(contest, key, {
    report,
    retitled: () => tell(savedText(true)),
    conflicted: showAllConflicts,
    ordered: follow,
    changed: preview,
    judged: () => control.previewReopening(),
  });
  if (who.permissions.includes("results:read")) previewWall();
  await shown();
  try {
    await acts.load();
  } catch (error) {
    report(said(error));
  }
}

/** Takes over the contest as it was read or written beside the form, whose edited fields stay. */
async function follow({ record, etag }) {
  rules.show(contest, contest.follow(record, etag));
  await shown();
}

async function shown() {
  const { title } = contest.record;
  const image = contest.text("image");
  element("heading").textContent = title || key;
  document.title = `${title || key} · Tallykeeper`;
  if (!element("picture").files.length)
    showPicture(image && `/media/image/${encodeURIComponent(image)}?size=thumb`);
  await control.show();
  acts.show();
}

async function save(event) {
  event.preventDefault();
  report("");
  rules.read(contest);
  if (!rules.isValid(contest)) return;
  element("save").disabled = true;
  try {
    const [file] = element("picture").files;
    if (file) contest.edit("image", await upload(file));
    element("picture").value = ""; // its key is kept if what follows fails
    if (!key) return await create();
    if (contest.edited.length === 0) return tell(t("There is nothing to save."));
    const isRetitled = contest.edited.includes("title");
    const isSaved = await contest.save(recordAt(path));
    rules.show(contest, contest.names);
    await shown();
    if (isSaved) tell(savedText(isRetitled));
    showAllConflicts();
  } catch (error) {
    report(said(error));
  } finally {
    element("save").disabled = false;
  }
}

/** Says that it is saved, and what a title that is changed after the end does not change. */
function savedText(isRetitled) {
  if (!isRetitled || contest.record.phase !== "finished") return t("Saved.");
  return t(
    "Saved. The contest is over: its result keeps the title that people voted for, and says the new one beside it.",
  );
}

async function create() {
  if (contest.record === null) await contest.create((body) => write("POST", "/contests", body));
  const made = `/contests/${encodeURIComponent(contest.record.key)}`;
  await contest.save(recordAt(made)); // what was edited since the first attempt
  location.assign(`/dashboard${made}/edit`);
}

/** Shows what was edited here and elsewhere, of the contest and of acts. */
function showAllConflicts() {
  const ofContest = contest.conflicts.map(({ name, text, theirs }) => {
    const [mine, other] = [text, theirs].map((each) => rules.inWords(name, each));
    return { form: contest, name, label: rules.label(name), mine, theirs: other };
  });
  showConflicts([...ofContest, ...(acts?.conflicts ?? [])], (settled, name) => {
    if (settled === contest) rules.show(contest, [name]);
    else acts.show();
    preview();
    showAllConflicts();
  });
}

function showPicture(address) {
  element("picture-shown").hidden = !address;
  if (address) element("picture-shown").src = address;
}

/** Saves the present result as a table. */
async function saveTable() {
  report("");
  try {
    const { body: counts } = await read(`${path}/vote_updates?details=true`);
    const people = counts.participants;
    const rows = placesOf(counts, (act) => counts.running_order.indexOf(act)).map((place) => ({
      ...place,
      name: people[place.key].title ?? "",
    }));
    saveCsv({ title: counts.title ?? "", counts, rows, time: clock.now() });
  } catch (error) {
    report(said(error));
  }
}

function shownActs() {
  return (acts?.items ?? []).filter((item) => item.record?.status !== "rejected");
}

/** Draws the voting page with what the forms hold. */
function preview() {
  const type = form.elements.contest_type.value;
  const button = { rating: t("Rate"), ordering: "" }[type] ?? t("Vote");
  const rows = shownActs().map((item) => {
    const picture = item.picture ? make("img", { src: item.picture, alt: "" }) : "";
    return make(
      "div",
      { className: "phone-act" },
      picture,
      make("strong", {}, item.title || "…"),
      button ? make("span", { className: "phone-button" }, button) : "",
    );
  });
  const title = () =>
    make("strong", { className: "phone-title" }, form.elements.title.value || "…");
  const about = form.elements.description.value;
  element("preview").replaceChildren(title(), ...(about ? [make("p", {}, about)] : []), ...rows);
}

/** Shows the contest's own wall, as wide as there is room; it follows what is saved. */
function previewWall() {
  const wall = element("wall-preview");
  const frame = /** @type {HTMLElement} */ (wall.parentElement);
  const fit = () => wall.style.setProperty("--scale", String(frame.clientWidth / WALL_PX));
  new ResizeObserver(fit).observe(frame);
  wall.src = `/dashboard${path}/wall`;
  frame.hidden = false;
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
