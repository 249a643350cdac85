// The service's time. Devices' clocks are hours off, so none of them decides anything.

const SECOND_MS = 1_000;

/** A clock that follows the service's; `device` is the device's own, in ms. */
export class ServiceClock {
  /** How far the service's clock is ahead of the device's, in ms; null before the first answer.
   *
   * @type {number | null}
   */
  #ahead = null;
  #device;

  constructor(device = () => Date.now()) {
    this.#device = device;
  }

  /** The service's time in ms, never ahead of it; the device's before the first answer. */
  now() {
    return this.#device() + (this.#ahead ?? 0);
  }

  /** Takes over the `server_time` of an event that has just come. */
  set(time) {
    this.#ahead = Date.parse(time) - this.#device();
  }

  /**
   * Takes over the header `Date` of an answer, in whole seconds; `sent` is the request's time by
   * the device's clock.
   */
  hear(date, sent) {
    const time = Date.parse(date ?? "");
    if (Number.isNaN(time)) return;
    const [least, most] = [time - this.#device(), time + SECOND_MS - sent];
    this.#ahead = Math.min(Math.max(this.#ahead ?? least, least), most);
  }
}

export const clock = new ServiceClock();
