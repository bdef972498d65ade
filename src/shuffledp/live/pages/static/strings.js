// Every sentence of the pages, in one place, so that others can translate it. Values are texts or functions of numbers.

/** A percentage that is not below the share, with as many digits as tell it from 100. @param {number} value */
export const percentAbove = (value) => {
  for (let digits = 1; digits < 5; digits++) {
    const percent = Math.ceil(value * 10 ** (digits + 2)) / 10 ** digits;
    if (percent < 100) return percent.toFixed(digits);
  }
  return "100";
};
/** Rounded up to six digits. @param {number} value */
const roundUp = (value) => {
  const near = Number(value.toPrecision(6));
  return near >= value ? near : Number((near + 10 ** (Math.floor(Math.log10(value)) - 5)).toPrecision(6));
};
const count = (/** @type {number} */ value) => value.toLocaleString("en");

/** How often somebody who was undecided guesses a yes or no right, at most, after an (epsilon, delta) release. @param {number} epsilon @param {number} delta */
export function guessAfter(epsilon, delta) {
  return Math.min(1, ((1 + 1e-15) * (1 + delta * Math.exp(-epsilon))) / (1 + Math.exp(-epsilon)));
}

/** The words of the first tier that a guess is not above. @param {number} guess @param {[number, string][]} tiers */
function tier(guess, tiers) {
  return (tiers.find(([most]) => guess <= most) ?? tiers[tiers.length - 1])[1];
}

export const strings = {
  loading: "Loading…",
  cannot: "This survey cannot be answered",
  noCurve:
    "This browser lacks a piece of cryptography (X25519) that keeps your answer from the servers. Chrome or Edge 133, Firefox 130, Safari 17 or later have it.",
  noLink: "The link is not complete: it must end in # and the id of the survey.",
  tampered: "The survey is not the one that the link names. Do not answer it.",
  notYet: (/** @type {string} */ time) => `This survey has not started. It takes answers from ${time} on.`,
  over: (/** @type {string} */ time) => `This survey is over: it took answers until ${time}.`,
  closed: "This survey was closed, and takes no more answers.",
  between_rounds: "This survey takes no answers at the moment.",
  development: "A demonstration: one operator plays all roles here, so this is as private as a central collector.",
  inShort: "What leaves this device",
  numbers: "The numbers behind this",
  promise: {
    one: "Of your answers one is sent, chosen at random; the others stay here.",
    /** What the device's own noise is worth. @param {number} guess how often an undecided attacker who gets the report is right */
    noise: (guess) => tier(guess, [
      [0.75, "Your answer is changed by chance on this device, before it is sent. What leaves it says little about the answer."],
      [0.955, "Your answer is changed by chance on this device, before it is sent. What leaves it is often your answer, and sometimes another one: nobody can be sure."],
      [1, "Your answer is hardly changed on this device before it is sent. Whoever gets hold of what leaves it almost certainly knows your answer: the protection lies in mixing it with the answers of others."],
    ]),
    guess: (/** @type {number} */ p) =>
      `Even if the servers conspire, somebody who was undecided about you guesses a yes or no right at most ${percentAbove(p)} % of the time.`,
    shuffled: (/** @type {import("/device/index.js").Promised} */ { epsilon, delta, composed }) =>
      `If everybody plays by the rules: epsilon = ${epsilon}, delta = ${delta}, ${composed ? strings.together : strings.each} (claimed by the survey).`,
    /** What the shuffled promise is worth. @param {number} epsilon @param {number} delta */
    published: (epsilon, delta) => {
      const guess = guessAfter(epsilon, delta);
      return tier(guess, [
        [0.53, "If everybody plays by the rules, what is published tells almost nothing about you"],
        [0.74, "If everybody plays by the rules, what is published tells little about you"],
        [0.955, "Even if everybody plays by the rules, what is published can tell something about you"],
        [1, "Even if everybody plays by the rules, what is published can tell a lot about you. This survey protects you only weakly"],
      ]) + `: somebody who was undecided guesses a yes or no right at most ${percentAbove(guess)} % of the time.`;
    },
    batch: (/** @type {number} */ n) => `Answers are opened only together with those of at least ${count(n)} reports.`,
  },
  illustration: "Try it with a made-up answer",
  illustrationHelp: "This uses made-up answers only. Your own is changed by chance once, and never shown here.",
  ifAnswer: "If the answer were",
  wouldSend: "this would be sent:",
  drawAgain: "Draw again",
  bytes: (/** @type {number} */ n) => `A report has ${count(n)} bytes, whatever you answer.`,
  marks: (/** @type {string[]} */ labels) => (labels.length ? `marks at ${labels.join(", ")}` : "no marks"),
  numberSent: (/** @type {string} */ text) => `the number ${text}`,
  between: (/** @type {number} */ low, /** @type {number} */ high) => `a number from ${low} to ${high}`,
  words: (/** @type {{ alphabet: string | null, maxLength: number, bits: number }} */ { alphabet, maxLength, bits }) =>
    alphabet === null ? `an integer of up to ${bits} bits`
      : `one word: ${{ letters: "letters from a to z", word: "letters, digits, - and _", ascii: "letters, digits, signs and spaces without accents", "utf-8": "any signs" }[alphabet]}, up to ${maxLength} bytes`,
  exactly: (/** @type {string} */ text) => `${text}, exactly`,
  group: "Group",
  token: "The single-use code of your invitation",
  codes: {
    unknown_token: "This code is not known here. Compare it with your invitation, and enter it again: nothing is lost.",
    token_spent: "This code was used already. Every code works once: ask for another one, and enter it here. Nothing is lost.",
    form: "A code has 64 characters, digits and the letters a to f. Compare it with your invitation.",
  },
  newCode: "Send with this code",
  send: "Send",
  again: "Send again",
  choose: "Please answer every question.",
  accept: "I understand this, and take part all the same.",
  states: {
    pending: "Your report is waiting on this device, and not sent yet.",
    sent: "Your report was sent, and the server has not confirmed it yet. Sending it again does no harm.",
    acknowledged: "Thank you: the server has your report. It counts once, however often it is sent.",
    refused: "The server did not take the report. It will not be counted.",
    unknown: "It is too late to find out whether the server has your report. You need not do anything.",
  },
  offline: "No connection. Your report is kept on this device, and sent as soon as there is one: leave this page open, or open it again later.",
  noAnswer: "The survey could not be loaded: there is no connection. Try again later.",
  receipt: "Receipt",
  answered: "This device has answered already.",
  trust: "Who may learn what",
  trustHead: ["If these are compromised", "people still have"],
  together: "for all reports of a device together",
  each: "for each report of a device",
  trustDevelopment: ["one operator plays all roles here", "trust as in the central model"],
  /** All reports of a device add up. @param {number} local @param {number} reports @param {number} together @param {number} guess */
  floor: (local, reports, together, guess) =>
    `local epsilon = ${roundUp(local)}${reports > 1 ? ` for each of ${count(reports)} reports, ${roundUp(together)} together` : ""}: somebody who was undecided guesses a yes or no right in at most ${percentAbove(guess)} % of cases`,
  trustRows: (/** @type {any} */ p, /** @type {string} */ needed, /** @type {string} */ together, /** @type {string} */ floor) => [
    [
      "readers of the result; an analyzer that only watches",
      `epsilon = ${p.epsilon}, delta = ${p.delta} (${together}), if ${needed} of the reports of a batch come from honest devices, which nobody can verify`,
    ],
    ["a shuffler that only watches", "everything, except that it knows that and when they took part"],
    [
      "a shuffler that drops or adds reports; whoever floods the collection and blocks the others; shuffler and analyzer together",
      floor,
    ],
    ["whoever serves this page", "nothing: it sees the answers. The page can be hosted elsewhere, with a published hash"],
    ["the network", "everything, except that it sees who takes part, when, and in which collection"],
  ],
  noFloor: "nothing: there is no floor, and the messages are the answers",
  trustServers: (/** @type {any} */ p, /** @type {string} */ together, /** @type {string} */ floor, /** @type {number} */ added) => [
    [
      "the analyzer alone",
      `epsilon = ${p.epsilon}, delta = ${p.delta} (${together}), whoever lies, drops out or is stuffed in: the shuffler adds about ${count(added)} messages that the analyzer cannot tell apart`,
    ],
    [
      "the shuffler alone, with the published result",
      `epsilon = ${p.epsilon}, delta = ${p.delta} (${together}), even if it drops all other reports: the analyzer adds as much noise before anything leaves it; the shuffler knows that and when they took part`,
    ],
    ["readers of the result", "at least as much, by the noise of both"],
    ["shuffler and analyzer together", floor],
    [
      "a shuffler that adds nothing",
      `towards readers epsilon = ${p.epsilon}, delta = ${p.delta} (${together}), by the analyzer's noise alone; the analyzer sees exact counts of the messages`,
    ],
    [
      "an analyzer that adds nothing",
      `towards readers epsilon = ${p.epsilon}, delta = ${p.delta} (${together}), by the shuffler's messages alone; the shuffler can subtract them, and see one message if it drops all others`,
    ],
    ["whoever serves this page", "nothing: it sees the answers. The page can be hosted elsewhere, with a published hash"],
    ["the network", "everything, except that it sees who takes part, when, and in which collection"],
  ],
  check: "How to check",
  checkText: "The id of this survey is the SHA-256 hash of its document. It should be the same wherever you find it:",
  yes: "yes",
  result: {
    none: "Nothing is published yet: results appear here once a round is over and enough people have answered.",
    quantile: (/** @type {number} */ p) => (p === 0.5 ? "half have at most" : `${Number((100 * p).toPrecision(4))} % have at most`),
    people: (/** @type {number} */ n, /** @type {number} */ window) => `${count(n)} people answered in round ${window + 1}.`,
    found: (/** @type {number} */ n) => `A word that ${count(n)} people have is found in 95 % of cases; rarer ones are likely missing.`,
    noWord: "No word was found.",
    sample: (/** @type {number} */ n) => `They are a random sample of ${count(n)}, whom the numbers are about.`,
    intervals: (/** @type {number} */ level) => `The lines are intervals: each holds the true value with probability ${Math.round(100 * level)} %.`,
    promise: (/** @type {any} */ p) =>
      `The promise, ${p.composed ? strings.together : strings.each}: epsilon = ${p.epsilon}, delta = ${p.delta}, if ${Math.round(100 * p.honest)} % of at least ${count(p.min_batch)} reports are honest.`,
    floor: (/** @type {any} */ p) =>
      `What people keep if all others conspire: epsilon = ${roundUp(p.local_epsilon * p.reports_per_device)}${p.reports_per_device > 1 ? ` for their ${count(p.reports_per_device)} reports together` : ""}.`,
    over: "Round after round",
    table: "As a table",
    columns: ["", "value", "low", "high"],
    download: "Download",
  },
  desk: {
    title: "The operator's desk",
    planner: "Plan a survey",
    collections: "Collections",
    none: "There is no collection yet.",
    unauthorized: "open the link that the command printed",
    page: "participation page",
    results: "public results",
    window: (/** @type {number} */ n) => `Round ${n + 1}`,
    until: (/** @type {string} */ time) => `until ${time}`,
    progress: (/** @type {number} */ reports, /** @type {number} */ needed) => `${count(reports)} of at least ${count(needed)} reports`,
    states: { open: "takes answers", sealed: "is being sealed", written: "waits for the analyzer", deleted: "is with the analyzer", expired: "had too few reports, and was deleted" },
    accepted: (/** @type {number} */ n) => `${count(n)} reports accepted since the start.`,
    keyAge: (/** @type {number} */ seconds) => `The key is ${Math.round(seconds / 3600)} hours old.`,
    analyzerNever: "The analyzer has not asked yet.",
    analyzerSeen: (/** @type {number} */ seconds) => `The analyzer asked ${Math.round(seconds)} seconds ago.`,
    failing: (/** @type {string} */ reason) => `Rounds cannot be sealed now: ${reason}`,
    rejected: ["Rejected because", "reports"],
    close: "Close it now",
    closeDeletes: (/** @type {number} */ missing, /** @type {number} */ reports) =>
      `${count(missing)} more ${missing === 1 ? "report is" : "reports are"} needed for a result. Closing now deletes ${reports === 1 ? "the 1 report" : `all ${count(reports)} reports`} of this round, and nothing is published.`,
    closePublishes: (/** @type {number} */ reports) => `No more answers are taken, and the result of ${count(reports)} reports is published.`,
    reallyDelete: "Delete and close", reallyClose: "Close and publish", keepOpen: "Keep it open",
    commands: "The same from the command line",
    fresh: "A new survey",
    question: (/** @type {number} */ n) => `Question ${n}`,
    words: "In words",
    task: "Kind",
    tasks: { histogram: "choose one of several", count: "yes or no", mean: "a number: its mean", quantiles: "a number: its quartiles", words: "a word: which ones many have" },
    categories: "Choices, one on each line",
    lower: "From", upper: "to",
    alphabet: "Letters of a word", longest: "at most … bytes",
    alphabets: { letters: "a to z", word: "a to z, digits, - and _", ascii: "ASCII", "utf-8": "any (UTF-8)" },
    found: (/** @type {number} */ n, /** @type {number} */ people) =>
      `Of ${count(people)} people ${count(n)} must have a word for it to be found in 95 % of cases.`,
    remove: "Remove", add: "Add a question",
    fields: {
      title: "Title", people: "People expected", epsilon: "Promise at most epsilon", local_epsilon: "Floor: what is left if all others conspire",
      noise: "Who adds the noise", delta: "delta", hours: "Hours open", error: "Wanted error in % (solves for the smallest floor; empty: none)",
    },
    noises: { either: "as usual", devices: "the devices", servers: "shuffler and analyzer, and the devices up to the floor",
      none: "shuffler and analyzer alone: both together could read answers" },
    noFloor: "none: shuffler and analyzer together could read answers",
    preview: "What you would get", planning: "Planning…",
    facts: { epsilon: "Promise: epsilon", local: "Floor (a guess is right at most)", batch: "Opened from … reports on", bytes: "Bytes per report",
      influence: "One liar moves an answer by … people", limit: "Accuracy is limited by" },
    unbounded: "no bound is known for words",
    madeUp: "A made-up result, with the error bars (95 %) that you should expect.",
    make: "Start it on this machine", starting: "Starting…", made: "It is running: open the participation page",
  },
};
