// The control desk of a show. The show is the contest's own, kept by the service: every desk and
// screen follows it.

import { proposedAddress, rememberAddress } from "./call-address.js";
import { awaitsRelease, isSecret, secretUntil } from "./headline.js";
import { element, isCommand, write } from "../page-elements.js";
import { changesOf, conflictsIn } from "../record-form.js";
import { said } from "../requests.js";
import { open, Refused } from "../session.js";
import { isTransient } from "../stream.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

const BEST = 3;
const AGAIN_MS = 1_000;
const CHANGED = t("Another desk has changed the show. Look at it, then press again.");

/**
 * The desk of one contest; `places()` returns the present places in order, `nameOf(key)` a
 * participant's name. With `isReadOnly` it says what screens show and what comes next, for a
 * presenter.
 */
export class ShowDesk {
  #path;
  #key;
  #options;
  /** @type {any} A `Show` with the names of its record; null before it was read. */
  #show = null;
  #etag = "";
  #seen = ""; // the show of the last `phase` event
  /** @type {any} A `Standing`; null before the first event. */
  #standing = null;
  #isBusy = false;

  constructor(path, options) {
    this.#key = decodeURIComponent(path.split("/").at(-1) ?? "");
    this.#path = `${path}/show`;
    this.#options = options;
    const commands = {
      "live-counts": () => this.#change({ state: "live", revealed: 0 }),
      hold: () =>
        this.#change({ state: this.#show.state === "held" ? "live" : "held", revealed: 0 }),
      reveal: () => this.#change({ state: "reveal", revealed: 0 }),
      "reveal-points": () =>
        this.#change({ reveals: this.#show.reveals === "points" ? "counts" : "points" }),
      "reveal-next": () => this.#next(),
      "reveal-all": () => this.#all(),
    };
    for (const [id, command] of Object.entries(commands))
      element(id).addEventListener("click", () => this.#may() && command());
    addEventListener("keydown", (event) => {
      if (!this.#may() || event.repeat) return;
      for (const [id, command] of Object.entries(commands))
        if (isCommand(event, element(id).getAttribute("aria-keyshortcuts") ?? "")) command();
      if (
        this.#show.state === "reveal" &&
        ["pagedown", "arrowright"].some((key) => isCommand(event, key))
      ) {
        event.preventDefault();
        this.#next();
      }
    });
    this.#dialogs();
  }

  /** Takes over the `phase` event's data, whose show another desk may have changed. */
  follow(standing) {
    this.#standing = standing;
    const seen = JSON.stringify(standing.show);
    if (seen !== this.#seen && !element("desk").hidden) this.#read();
    this.#seen = seen;
  }

  /** Updates the desk; call it when the places may have changed. */
  render() {
    const show = this.#show;
    if (!show || !this.#standing) return;
    const { state } = show;
    const pressed = {
      "live-counts": "live",
      hold: "held",
      reveal: "reveal",
      "reveal-all": "result",
    };
    for (const [id, of] of Object.entries(pressed))
      element(id).setAttribute("aria-pressed", String(state === of));
    element("reveal-points").setAttribute("aria-pressed", String(show.reveals === "points"));
    element("call-edit").setAttribute("aria-pressed", String(show.call_to_vote.is_shown));
    element("message-edit").setAttribute("aria-pressed", String(Boolean(show.message)));
    element("release").hidden = !awaitsRelease(this.#standing);
    const ranks = this.#ranks();
    element("reveal-next").disabled = state !== "reveal" || show.revealed >= ranks.length;
    write("screens-show", this.#says(ranks.length));
    write("screens-next", this.#comesNext(ranks));
  }

  #says(all) {
    const { state, held_at: heldAt, revealed } = this.#show;
    if (state === "result") return t("Screens show all places.");
    if (state === "reveal")
      return t("Screens show {n} of {all} places.", { n: Math.min(revealed, all), all });
    if (!this.#standing.is_public) return t("Screens show the participants without counts.");
    if (state === "held")
      return t("Screens show the counts of {time}.", { time: words.time(Date.parse(heldAt)) });
    return t("Screens show the present counts.");
  }

  /** Names who is revealed next, once the result cannot change any more. */
  #comesNext(ranks) {
    const next = ranks[this.#show.revealed];
    if (this.#show.state !== "reveal" || next === undefined) return "";
    if (!this.#standing.final) return t("The result is not final yet.");
    if (!this.#standing.held_final)
      return t("The result has changed since the reveal began. Press Reveal to begin again.");
    const named = this.#options.places().filter((place) => place.rank === next);
    return t("Next: {rank}. {names}", {
      rank: next,
      names: named.map((place) => this.#options.nameOf(place.key)).join(", "),
    });
  }

  /** Returns the places from the last one up; several participants can share one. */
  #ranks() {
    return [...new Set(this.#options.places().map((place) => place.rank))].toReversed();
  }

  #may() {
    return this.#show !== null && !element("desk").hidden && !this.#options.isReadOnly;
  }

  /**
   * Opens the next place; of points first all but the best three places, as nobody waits for 1 to 7
   * of them.
   */
  #next() {
    const { state, revealed, reveals } = this.#show;
    if (state !== "reveal") return;
    const atOnce = reveals === "points" && revealed === 0 ? this.#ranks().length - BEST : 1;
    this.#change({ revealed: revealed + Math.max(1, atOnce) });
  }

  async #all() {
    const { state, revealed, reveals } = this.#show;
    const isRevealed =
      state === "reveal" && reveals === "counts" && revealed >= this.#ranks().length;
    if (!isRevealed && isSecret(this.#standing)) {
      write("ask-hidden-why", secretUntil(this.#standing));
      if ((await asked("ask-hidden")) !== "yes")
        return this.#change({ state: "live", revealed: 0 });
    }
    return this.#change({ state: "result" });
  }

  /** Changes members of the show, unless another desk has changed it since this one has read it. */
  async #change(members) {
    if (this.#isBusy) return;
    this.#isBusy = true;
    write("desk-error", "");
    try {
      const body = JSON.stringify({ ...this.#show, ...members });
      const headers = { "Content-Type": "application/json", "If-Match": this.#etag };
      await this.#take(await open(this.#path, { method: "PUT", headers, body }));
    } catch (error) {
      if (!(error instanceof Refused || error instanceof TypeError)) throw error;
      const isLate = error instanceof Refused && error.status === 412;
      write("desk-error", isLate ? CHANGED : said(error));
      if (isLate) await this.#read();
    } finally {
      this.#isBusy = false;
    }
  }

  async #read() {
    try {
      await this.#take(await open(this.#path, { cache: "no-store" }));
    } catch (error) {
      if (!(error instanceof Refused || error instanceof TypeError)) throw error;
      // no event need come, such as after a restart
      if (isTransient(error instanceof Refused ? error.status : 503))
        setTimeout(() => this.#read(), AGAIN_MS);
      else this.#seen = ""; // the next event of the stream reads it again
    }
  }

  async #take(answer) {
    this.#show = await answer.json();
    this.#etag = answer.headers.get("ETag");
    this.render();
  }

  /**
   * Returns `now` with edited members, null if another desk has changed them since the dialog
   * showed them as `before`.
   */
  #edited(before, now, members) {
    if (conflictsIn(now, changesOf(before, members)).length > 0) {
      write("desk-error", CHANGED);
      return null;
    }
    return { ...now, ...Object.fromEntries(members.map(([path, value]) => [path[0], value])) };
  }

  #dialogs() {
    element("call-edit").addEventListener("click", async () => {
      if (!this.#may()) return;
      const before = this.#show.call_to_vote;
      const fields = { text: element("call-new-text"), url: element("call-new-address") };
      for (const [name, field] of Object.entries(fields)) field.value = before[name] ?? "";
      if (!before.text && !before.url) fields.url.value = proposedAddress(this.#key);
      const choice = await asked("ask-call");
      const edited = Object.entries(fields).filter(
        ([name, field]) => field.value !== (before[name] ?? ""),
      );
      const members = edited.map(([name, field]) => [[name], field.value.trim() || null]);
      const call =
        choice === "yes"
          ? this.#edited(before, this.#show.call_to_vote, members)
          : this.#show.call_to_vote;
      if (choice === "yes") rememberAddress(fields.url.value.trim(), this.#key);
      if (choice !== "no" && call)
        this.#change({ call_to_vote: { ...call, is_shown: choice === "yes" } });
    });
    element("message-edit").addEventListener("click", async () => {
      if (!this.#may()) return;
      const { message } = this.#show;
      const field = element("new-message");
      field.value = message ?? "";
      const choice = await asked("ask-message");
      const text = choice === "hide" ? "" : field.value;
      if (choice === "no" || text === (message ?? "")) return;
      const edited = this.#edited({ message }, { message: this.#show.message }, [
        [["message"], text.trim() || null],
      ]);
      if (edited) this.#change(edited);
    });
    element("release").addEventListener("click", async () => {
      if (this.#may() && (await asked("ask-release")) === "yes")
        this.#change({ is_released: true });
    });
  }
}

/** Shows a dialog, and returns the value of the button that closed it. */
async function asked(id) {
  const dialog = element(id);
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  return dialog.returnValue;
}
