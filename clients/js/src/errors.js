/** Something about a collection that is not as it must be. `reason` is for programs, the message for people. */
export class WireError extends Error {
  /**
   * @param {string} reason
   * @param {string} sentence
   */
  constructor(reason, sentence) {
    super(`${reason}: ${sentence}`);
    this.name = "WireError";
    this.reason = reason;
  }
}
