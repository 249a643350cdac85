// Texts in the chosen language. Pages and modules are written in English; the other languages are here.

const GERMAN = {
  "{first} and {second} are level with {score}.": "{first} und {second} liegen gleichauf mit {score}.",
  "{first} leads with {score}, {ahead} ahead of {second}.": "{first} führt mit {score}, {ahead} vor {second}.",
  "{first} leads with {score}.": "{first} führt mit {score}.",
  "{days} d {hours} h": "{days} T {hours} Std",
  "{n} a minute": "{n} in der Minute",
  "{n} ballot": "{n} Stimmzettel",
  "{n} ballots": "{n} Stimmzettel",
  "{n} hour": "{n} Stunde",
  "{n} hours": "{n} Stunden",
  "{n} min ago": "vor {n} min",
  "{n} minute": "{n} Minute",
  "{n} minutes": "{n} Minuten",
  "{n} point": "{n} Punkt",
  "{n} points": "{n} Punkte",
  "{n} rating": "{n} Wertung",
  "{n} ratings": "{n} Wertungen",
  "{n} s ago": "vor {n} s",
  "{n} vote": "{n} Stimme",
  "{n} votes": "{n} Stimmen",
  "{page} of {pages}": "{page} von {pages}",
  "{span} ago": "vor {span}",
  "Address to vote at, shown as a QR code": "Adresse zum Abstimmen, als QR-Code gezeigt",
  All: "Alle",
  "All participants": "Alle Teilnehmer",
  "All phases": "Alle Phasen",
  "All places": "Alle Plätze",
  "All types": "Alle Arten",
  "All voters, including those whose votes were only for participants rejected later":
    "Alle Abstimmenden, auch solche, deren Stimmen nur später abgelehnten Teilnehmern galten",
  "and {n} more": "und {n} weitere",
  "an average of {average} from {n}": "durchschnittlich {average} aus {n}",
  Announced: "Angekündigt",
  Anonymous: "Anonym",
  "Anonymous voters": "Anonyme Abstimmende",
  "API keys": "API-Schlüssel",
  "API key": "API-Schlüssel",
  "As a table": "Als Tabelle",
  "As of {time}, {ago}": "Stand {time}, {ago}",
  Ballots: "Stimmzettel",
  "Call to vote": "Aufruf",
  Cancel: "Abbrechen",
  Certificate: "Zertifikat",
  Chart: "Diagramm",
  "Chart mode": "Art des Diagramms",
  "Connecting …": "Verbinde …",
  Contest: "Abstimmung",
  Contests: "Abstimmungen",
  Copied: "Kopiert",
  "Copy link": "Link kopieren",
  "Copy the address from the browser": "Adresse bitte aus dem Browser kopieren",
  "Counting is {n} vote behind": "{n} Stimme noch nicht gezählt",
  "Counting is {n} votes behind": "{n} Stimmen noch nicht gezählt",
  Deleted: "Gelöscht",
  "Do not show them": "Nicht zeigen",
  "Down {n}": "{n} tiefer",
  "Download the certificate": "Zertifikat herunterladen",
  "Drag to zoom. Click participants in the ranking to pick them for the chart.":
    "Ziehen vergrößert. Ein Klick auf Teilnehmer der Rangliste wählt sie für das Diagramm.",
  Earlier: "Früher",
  "ended {time}": "beendet {time}",
  "ends in {span}": "endet in {span}",
  external: "extern",
  Final: "Endgültig",
  "Final result: {winners} with {score}.": "Endergebnis: {winners} mit {score}.",
  "Find a contest": "Abstimmung suchen",
  "Find a participant": "Teilnehmer suchen",
  Finished: "Beendet",
  "Free votes": "Freie Stimmen",
  "Held at {time}": "Angehalten um {time}",
  "Held, not counted: {list}": "Zurückgehalten, nicht gezählt: {list}",
  Hidden: "Verdeckt",
  "Hidden from the public until {time}": "Vor dem Publikum verdeckt bis {time}",
  "Hidden from the public until {time}, except from who has voted":
    "Vor dem Publikum verdeckt bis {time}, außer für Abstimmende",
  "Hidden from the public until they are set to shown": "Vor dem Publikum verdeckt, bis sie freigegeben werden",
  Hold: "Anhalten",
  "In setup": "In Vorbereitung",
  "In total": "In Summe",
  internal: "intern",
  "just now": "gerade eben",
  Language: "Sprache",
  "Last change {ago}": "Letzte Änderung {ago}",
  Later: "Später",
  Lead: "Vorsprung",
  Leaders: "Führende",
  level: "gleichauf",
  Live: "Live",
  "Loading …": "Lädt …",
  "Log in": "Anmelden",
  "Log in again": "Neu anmelden",
  "Log out": "Abmelden",
  "lower than before": "niedriger als zuvor",
  "Next place": "Nächster Platz",
  no: "nein",
  "No access": "Kein Zugriff",
  "No contest matches.": "Keine Abstimmung passt.",
  "no end set": "ohne Ende",
  "no participant has this id": "kein Teilnehmer hat diese Kennung",
  "No participant matches.": "Kein Teilnehmer passt.",
  "no start set": "ohne Beginn",
  nobody: "niemand",
  "Number of rows": "Anzahl der Zeilen",
  "open end": "ohne Ende",
  Operations: "Betrieb",
  Ordering: "Reihung",
  "Over time": "Im Verlauf",
  Pages: "Seiten",
  "Paid votes": "Bezahlte Stimmen",
  Participants: "Teilnehmer",
  Participation: "Teilnahme",
  Paused: "Unterbrochen",
  "Per step": "Je Schritt",
  Phase: "Phase",
  Points: "Punkte",
  "Points per second": "Punkte pro Sekunde",
  Provisional: "Vorläufig",
  Ranking: "Rangliste",
  Rating: "Wertung",
  Ratings: "Wertungen",
  "Ratings by value: {list}": "Wertungen nach Wert: {list}",
  "Ratings per second": "Wertungen pro Sekunde",
  "Reconnecting …": "Verbinde neu …",
  Reveal: "Enthüllen",
  Running: "Läuft",
  Sealed: "Besiegelt",
  "Sealed {time}. SHA-256 of the certificate:": "Besiegelt {time}. SHA-256 des Zertifikats:",
  Share: "Anteil",
  Show: "Zeigen",
  "Show hidden counts?": "Verdeckte Zahlen zeigen?",
  "Show more": "Mehr zeigen",
  "Show them on the wall": "Auf der Wand zeigen",
  "Shown in the chart": "Im Diagramm",
  "Skip to the content": "Zum Inhalt",
  Source: "Quelle",
  Sources: "Quellen",
  "Sources of": "Quellen von",
  "starts in {span}": "beginnt in {span}",
  "Steps of {step}, the last one (dashed) unfinished. Times in {zone}.":
    "Schritte von {step}, der letzte (gestrichelt) unvollendet. Zeiten in {zone}.",
  Text: "Text",
  "The chart as a table": "Das Diagramm als Tabelle",
  "The counts are temporarily unavailable. This page shows the latest ones and continues by itself.":
    "Die Zahlen sind zurzeit nicht verfügbar. Diese Seite zeigt die letzten und macht von selbst weiter.",
  "The counts of this contest are hidden, and your API key may not see them (results:read_hidden).":
    "Die Zahlen sind verdeckt, und dieser API-Schlüssel darf sie nicht sehen (results:read_hidden).",
  "The service cannot be reached. Reload to try again.": "Der Dienst ist nicht erreichbar. Bitte neu laden.",
  "The service cannot be reached.": "Der Dienst ist nicht erreichbar.",
  "The service does not answer. Try again.": "Der Dienst antwortet nicht. Bitte noch einmal versuchen.",
  "The service has ended the connection.": "Der Dienst hat die Verbindung beendet.",
  "the contest's end": "zum Ende",
  "Theme: {name}": "Farben: {name}",
  "There are no contests yet.": "Es gibt noch keine Abstimmungen.",
  "There are no participants yet.": "Es gibt noch keine Teilnehmer.",
  "This API key cannot list contests (content:read). Open one at /dashboard/contests/<its key>.":
    "Dieser API-Schlüssel darf Abstimmungen nicht auflisten (content:read). Eine öffnet /dashboard/contests/<Schlüssel>.",
  "This contest has been deleted. This page shows its latest counts.":
    "Diese Abstimmung wurde gelöscht. Diese Seite zeigt ihre letzten Zahlen.",
  "This device is offline.": "Dieses Gerät ist offline.",
  "This page shows the latest counts and continues by itself.":
    "Diese Seite zeigt die letzten Zahlen und macht von selbst weiter.",
  Time: "Zeit",
  "Times in {zone}.": "Zeiten in {zone}.",
  Total: "Summe",
  Type: "Art",
  "Up {n}": "{n} höher",
  Voters: "Abstimmende",
  "Vote only": "Nur Abstimmung",
  Votes: "Stimmen",
  "Votes of {names} in steps of {step}, the last one unfinished; the same as a table below.":
    "Stimmen für {names} in Schritten von {step}, der letzte unvollendet; darunter als Tabelle.",
  "Votes of {names} over time; the same as a table below.": "Stimmen für {names} im Verlauf; darunter als Tabelle.",
  "Votes by source": "Stimmen nach Quelle",
  "Votes per second": "Stimmen pro Sekunde",
  Wall: "Wand",
  "With an API key that has the permission": "Mit einem API-Schlüssel mit der Berechtigung",
  yes: "ja",
  "Your session ends at {time}.": "Die Sitzung endet um {time}.",
  "Your session has ended. Log in again.": "Die Sitzung ist beendet. Bitte neu anmelden.",
  "Zoom in": "Vergrößern",
  "Zoom out": "Verkleinern",
  auto: "auto",
  dark: "dunkel",
  light: "hell",
};
const TEXTS = { en: {}, de: GERMAN };
export const LANGUAGES = { en: "English", de: "Deutsch" };

const ATTRIBUTES = ["aria-label", "placeholder", "title"];

const ENGLISH_PAGES = ["keys", "operations"];
export const isTranslated = !ENGLISH_PAGES.includes(document.documentElement.dataset.page);

/** The chosen language: of the address, of this browser, of the deployment, or the browser's own. */
export const language = [
  ...(isTranslated ? [] : ["en"]),
  new URLSearchParams(location.search).get("lang"),
  stored(),
  document.documentElement.dataset.language,
  ...navigator.languages.map((each) => each.split("-")[0]),
].find((each) => each in TEXTS) ?? "en";

/** Returns a text in the chosen language, with `values` in place of the names in braces. */
export function t(text, values = {}) {
  return (TEXTS[language][text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** Marks a text that `t` translates later. */
export const mark = (text) => text;

/** Chooses another language. */
export function choose(name) {
  try {
    localStorage.setItem("language", name);
  } catch {
    // without storage the address alone carries it
  }
  const address = new URL(location.href);
  if (address.searchParams.has("lang")) address.searchParams.set("lang", name);
  location.assign(address);
}

/** Translates the texts of the page as it was served. */
export function translate() {
  document.documentElement.lang = language;
  if (language === "en") return;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const text = node.data.trim();
    if (text) node.data = node.data.replace(text, () => t(text));
  }
  for (const name of ATTRIBUTES)
    for (const element of document.querySelectorAll(`[${name}]`)) element.setAttribute(name, t(element.getAttribute(name)));
}

function stored() {
  try {
    return localStorage.getItem("language");
  } catch {
    return null;
  }
}
