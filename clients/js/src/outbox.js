// Outboxes: in memory for tests and illustrations, in IndexedDB for browsers. A lock makes two tabs wait for one another.

/** @typedef {import("./device.js").Kept} Kept */

/** Forgets everything at the end of the page. @implements {import("./device.js").Outbox} */
export class MemoryOutbox {
  /** @type {Map<string, Kept>} */
  #kept = new Map();
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  lock(work) {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }

  async all() {
    return [...this.#kept.values()].map((each) => ({ ...each }));
  }

  /** @param {Kept} kept */
  async put(kept) {
    this.#kept.set(`${kept.collection} ${kept.window}`, { ...kept });
  }
}

/** Of a browser: one for all collections of an origin. @implements {import("./device.js").Outbox} */
export class BrowserOutbox {
  #name;

  /** @param {string} name */
  constructor(name = "shuffledp") {
    this.#name = name;
  }

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  lock(work) {
    return navigator.locks.request(`${this.#name} outbox`, work);
  }

  /** @returns {Promise<IDBDatabase>} */
  #open() {
    return new Promise((resolve, reject) => {
      const request = indexedDB.open(this.#name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore("reports", { keyPath: ["collection", "window"] });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  }

  /** @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest} ask */
  async #ask(mode, ask) {
    const database = await this.#open();
    try {
      return await new Promise((resolve, reject) => {
        const transaction = database.transaction("reports", mode, { durability: "strict" });
        const request = ask(transaction.objectStore("reports"));
        transaction.oncomplete = () => resolve(request.result);
        transaction.onabort = () => reject(transaction.error);
      });
    } finally {
      database.close();
    }
  }

  /** @returns {Promise<Kept[]>} */
  all() {
    return this.#ask("readonly", (store) => store.getAll());
  }

  /** @param {Kept} kept */
  async put(kept) {
    await this.#ask("readwrite", (store) => store.put(kept));
  }
}
