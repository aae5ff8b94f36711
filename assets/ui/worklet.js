// On the audio thread: int16 samples come in pieces, and are played from wherever the playhead stands.
// A pause for want of samples is silence; when they come, it goes on where it was.
class Speech extends AudioWorkletProcessor {
  constructor() {
    super();
    this.pieces = [];  // { begin, samples }
    this.length = 0;
    this.place = 0;
    this.piece = 0;
    this.isPlaying = this.hasEnded = this.isHeard = false;
    this.told = 0;
    this.port.onmessage = ({ data }) => this.hear(data);
  }

  hear({ samples, play, place, end }) {
    if (samples !== undefined) {
      this.pieces.push({ begin: this.length, samples });
      this.length += samples.length;
    }
    if (end !== undefined) this.hasEnded = true;
    if (place !== undefined) this.seek(place);
    if (play !== undefined) this.isPlaying = play;
    this.tell();
  }

  seek(place) {
    this.place = Math.max(0, Math.min(place, this.length));
    this.piece = Math.max(0, this.pieces.findLastIndex(({ begin }) => begin <= this.place));
  }

  tell() {
    this.told = currentFrame;
    this.port.postMessage({ place: this.place, isPlaying: this.isPlaying });
  }

  process(_, [[left, ...others]]) {
    if (!this.isPlaying) return true;
    let at = 0;
    while (at < left.length && this.place < this.length) {
      let { begin, samples } = this.pieces[this.piece];
      if (this.place >= begin + samples.length) {
        this.piece += 1;
        continue;
      }
      const count = Math.min(left.length - at, begin + samples.length - this.place);
      const from = this.place - begin;
      for (let n = 0; n < count; n++) left[at + n] = samples[from + n] / 32768;
      at += count;
      this.place += count;
    }
    others.forEach((channel) => channel.set(left));
    if (!this.isHeard && left.some((sample) => sample !== 0)) {
      this.isHeard = true;
      this.port.postMessage({ isHeard: true });
    }
    if (this.place >= this.length && this.hasEnded) {
      this.isPlaying = false;
      this.tell();
    } else if (currentFrame - this.told >= sampleRate / 20) this.tell();
    return true;
  }
}
registerProcessor("speech", Speech);
