// A part of the page that is out of sight is drawn again after five seconds, and at once when it comes into sight: most
// of the cost of a tick is that of drawing.

const LONGEST_MS = 5000;

export class Sight {
  constructor(element) {
    this.isSeen = true;
    this.waiting = null;
    this.drawn = -Infinity;
    const look = new IntersectionObserver((entries) => {
      this.isSeen = entries.at(-1).isIntersecting;
      if (this.isSeen) this.now();
    });
    look.observe(element);
    addEventListener("beforeprint", () => this.now());
  }

  // Calls `draw` now or later, unless a later one takes its place.
  draw(draw) {
    this.waiting = draw;
    if (this.isSeen || performance.now() - this.drawn >= LONGEST_MS) this.now();
  }

  now() {
    const draw = this.waiting;
    this.waiting = null;
    if (!draw) return;
    this.drawn = performance.now();
    draw();
  }
}
