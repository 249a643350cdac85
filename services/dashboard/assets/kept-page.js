// Registers the worker that serves this page while the service is away (`worker.js`).

const WORKER = "/dashboard/worker.js";

/** Has the page kept, with all files that it has loaded; browsers allow that over HTTPS only. */
export async function keepPage() {
  if (!globalThis.navigator?.serviceWorker) return;
  try {
    await navigator.serviceWorker.register(WORKER, { updateViaCache: "none" });
    const { active } = await navigator.serviceWorker.ready;
    const files = performance.getEntriesByType("resource").map(({ name }) => name);
    active?.postMessage({ page: location.origin + location.pathname, files });
  } catch (error) {
    console.warn("This page is not kept for when the service is away:", error);
  }
}
