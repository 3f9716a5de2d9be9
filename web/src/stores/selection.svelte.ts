/**
 * The step that the chart's cursor and the sample slider share. The mouse points at a step for as long as it
 * stays over the chart; a click, a key or the slider picks one. Nothing chosen means: follow the newest.
 */
export class Selection {
  pointed = $state<number | null>(null);
  picked = $state<number | null>(null);

  get step(): number | null {
    return this.pointed ?? this.picked;
  }

  pick(step: number | null): void {
    this.picked = step;
    this.pointed = null;
  }
}
