// Serves pages while the service is away, so that a screen that is loaded again has no error page.
//
// It keeps the pages, which contain no data, their files, and the titles of public contests. All are
// read from the service first, so nothing old is shown while it answers.
"use strict";

/** @type {any} The worker, of which the types of pages know nothing. */
const worker = self;

const CACHE = "pages";
const WAIT_MS = 5_000; // for the service, where there is something to show without it
const MOST = 300;
const PAGE = /^\/dashboard\/(contests\/[^/]+(\/wall|\/edit)?|new|keys|operations)$/;
const FILE = /^\/dashboard\/assets\//;
const TITLE = /^\/public\/contests\/[^/]+$/;

/** Returns the name under which the answer to a request is kept; null for all that holds data. */
function nameOf({ method, mode, url }) {
  const { origin, pathname } = new URL(url);
  if (method !== "GET" || origin !== worker.location.origin) return null;
  // a page is the same for all contests
  if (mode === "navigate")
    return PAGE.test(pathname) ? pathname.replace(/contests\/[^/]+/, "contests/-") : null;
  return FILE.test(pathname) || TITLE.test(pathname) ? pathname : null;
}

/** Returns the service's answer, or the one that was kept while the service does not answer. */
async function answered(url, name) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(name);
  let found = null;
  try {
    const signal = kept ? AbortSignal.timeout(WAIT_MS) : null;
    found = await fetch(url, { credentials: "same-origin", cache: "no-cache", signal });
  } catch (error) {
    if (!kept) throw error;
  }
  if (found === null || found.status >= 500) return kept ?? found;
  if (found.ok) await keep(cache, name, found.clone());
  else await cache.delete(name);
  return found;
}

/** Keeps an answer, and discards the oldest ones if there are too many. */
async function keep(cache, name, answer) {
  await cache.put(name, answer);
  const names = await cache.keys();
  for (const oldest of names.slice(0, Math.max(0, names.length - MOST))) await cache.delete(oldest);
}

worker.addEventListener("install", () => worker.skipWaiting());
worker.addEventListener("activate", (event) => event.waitUntil(worker.clients.claim()));
worker.addEventListener("fetch", (event) => {
  const name = nameOf(event.request);
  if (name) event.respondWith(answered(event.request.url, name));
});
// what a page had loaded before this worker was there
worker.addEventListener("message", (event) => {
  const { page, files } = event.data;
  const requests = [
    { method: "GET", mode: "navigate", url: page },
    ...files.map((url) => ({ method: "GET", mode: "cors", url })),
  ];
  const named = requests
    .map((request) => [request.url, nameOf(request)])
    .filter(([, name]) => name);
  const all = named.map(([url, name]) => answered(url, name));
  event.waitUntil(Promise.allSettled(all));
});
