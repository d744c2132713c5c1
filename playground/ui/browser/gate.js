// Keeps drawings from holding up the page.

const REST = 200; // ms between two drawings, at least
const SHARE = 4; // drawing may take one part in SHARE + 1 of the page's time
const LONGEST = 1000; // ms from one beginning to the next, whatever the share

// Draws the latest picture offered whenever that is cheap enough, and at once when it is told to settle.
export class Gate {
  constructor(draw) {
    Object.assign(this, { draw, latest: null, urgent: false, busy: false, timer: 0, ready: 0 });
  }

  // Nothing is drawn for a while, unless it must be exact.
  rest() {
    this.ready = performance.now() + REST;
  }

  offer(picture) {
    this.latest = picture;
    if (!this.busy) this.arm();
  }

  settle(picture) {
    this.urgent = true;
    this.offer(picture);
  }

  arm() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), this.urgent ? 0 : Math.max(0, this.ready - performance.now()));
  }

  async run() {
    const picture = this.latest;
    Object.assign(this, { latest: null, urgent: false, busy: true });
    const began = performance.now();
    try {
      await this.draw(picture);
    } finally {
      // A drawing that failed is told on the console and does not stop the next.
      const now = performance.now();
      this.ready = Math.max(now + REST, began + Math.min(LONGEST, (SHARE + 1) * (now - began)));
      this.busy = false;
      if (this.latest) this.arm();
    }
  }
}
