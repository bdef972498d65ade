export { BUDGET, Device, FLOOR_BUDGET, settle } from "./device.js";
export { Collection, findEnds, findPlace } from "./document.js";
export { WireError } from "./errors.js";
export { isSupported, open, seal } from "./hpke.js";
export { buildRandomizer, LAWS, loadLaws } from "./laws.js";
export { encodeMessage, messageSize } from "./messages.js";
export { BrowserOutbox, MemoryOutbox } from "./outbox.js";
export { encodeAnswers, joinUpload, MEDIA_TYPE, randomize, readReply, reportId, sealInner, sealReport } from "./report.js";
export { listedWords, secureWords } from "./words.js";
