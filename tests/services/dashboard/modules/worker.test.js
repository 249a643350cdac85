import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import vm from "node:vm";

const SOURCE = new URL("../../../../services/dashboard/assets/worker.js", import.meta.url);
const ORIGIN = "https://tally.example";
const WALL = "/dashboard/contests/final/wall";

/** The worker of a browser whose service answers by `service(url)`. */
function workerOf(service) {
  const [listeners, stored] = [{}, new Map()];
  const cache = {
    match: async (name) => stored.get(name.url ?? name)?.clone(),
    async put(name, answer) {
      stored.delete(name);
      stored.set(name, answer);
    },
    delete: async (name) => stored.delete(name.url ?? name),
    keys: async () => [...stored.keys()].map((url) => ({ url })),
  };
  const self = {
    location: { origin: ORIGIN },
    addEventListener: (name, listener) => (listeners[name] = listener),
    skipWaiting: () => {},
    clients: { claim: () => {} },
  };
  const globals = { self, caches: { open: async () => cache }, fetch: async (url) => service(url) };
  vm.runInNewContext(readFileSync(SOURCE, "utf-8"), { ...globals, URL, AbortSignal });
  return {
    stored,
    async request(path, mode = "cors", method = "GET") {
      let answer = null; // the browser asks the service itself
      listeners.fetch({
        request: { method, mode, url: ORIGIN + path },
        respondWith: (given) => (answer = given),
      });
      return answer && (await answer).text();
    },
    async message(data) {
      let done = null;
      listeners.message({ data, waitUntil: (given) => (done = given) });
      await done;
    },
  };
}

/** A service that can be away: unreachable, or behind a proxy that answers for it. */
function serviceOf(pages) {
  const service = (url) => {
    if (service.isAway === "unreachable") throw new TypeError("fetch failed");
    if (service.isAway) return new Response("bad gateway", { status: 502 });
    const found = pages[url.replace(ORIGIN, "")];
    return new Response(found, { status: found === undefined ? 404 : 200 });
  };
  return service;
}

test("while the service is away a wall's page, its files and its title are still there", async () => {
  for (const away of ["unreachable", "proxy"]) {
    const files = ["/dashboard/assets/wall/wall.js", "/public/contests/final"];
    const service = serviceOf({ [WALL]: "page", [files[0]]: "script", [files[1]]: "title" });
    const worker = workerOf(service);
    const urls = files.map((path) => ORIGIN + path);
    await worker.message({
      page: ORIGIN + WALL,
      files: [...urls, `${ORIGIN}/contests/final/show`],
    });
    service.isAway = away;
    assert.equal(await worker.request(WALL, "navigate"), "page");
    assert.equal(await worker.request("/dashboard/contests/other/wall", "navigate"), "page");
    assert.equal(await worker.request(files[0]), "script");
    assert.equal(await worker.request(files[1]), "title");
  }
});

test("nothing old is shown while the service answers", async () => {
  const pages = { [WALL]: "page", "/public/contests/final": "title" };
  const service = serviceOf(pages);
  const worker = workerOf(service);
  await worker.request(WALL, "navigate");
  await worker.request("/public/contests/final");
  pages[WALL] = "new page";
  delete pages["/public/contests/final"]; // it is not public any more
  assert.equal(await worker.request(WALL, "navigate"), "new page");
  await worker.request("/public/contests/final");
  assert.ok(!worker.stored.has("/public/contests/final"));
});

test("what holds data is never kept", async () => {
  const worker = workerOf(serviceOf({}));
  for (const path of [
    "/contests/final/show/stream",
    "/contests/final",
    "/public/contests/final/results",
    "/dashboard/brand",
    "/dashboard/session",
    "/media/image/a",
  ])
    assert.equal(await worker.request(path), null, path);
  assert.equal(await worker.request("/dashboard/assets/x.js", "cors", "POST"), null);
  assert.equal(worker.stored.size, 0);
});

test("what was never kept fails as without a worker", async () => {
  const service = serviceOf({});
  service.isAway = "unreachable";
  await assert.rejects(workerOf(service).request(WALL, "navigate"), TypeError);
  service.isAway = "proxy";
  assert.equal(await workerOf(service).request(WALL, "navigate"), "bad gateway");
});

test("the oldest of many titles are discarded", async () => {
  const pages = Object.fromEntries(
    Array.from({ length: 400 }, (_, at) => [`/public/contests/${at}`, `${at}`]),
  );
  const worker = workerOf(serviceOf(pages));
  for (const path of Object.keys(pages)) await worker.request(path);
  assert.equal(worker.stored.size, 300);
  assert.ok(worker.stored.has("/public/contests/399"));
});
