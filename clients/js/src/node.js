// A device under Node: the outbox is a folder with one file per report, written, synced and renamed.

import { mkdir, open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";

import { WireError } from "./errors.js";

export * from "./index.js";

/** @implements {import("./device.js").Outbox} */
export class FolderOutbox {
  /** @param {string} folder */
  constructor(folder) {
    this.folder = folder;
  }

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  async lock(work) {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const path = join(this.folder, "lock");
    try {
      await mkdir(path); // fails if it is there: one program at a time
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
      throw new WireError("locked", `another program uses the outbox; if none does, remove ${path}`);
    }
    try {
      return await work();
    } finally {
      await rm(path, { recursive: true });
    }
  }

  /** @returns {Promise<import("./device.js").Kept[]>} */
  async all() {
    const names = await readdir(this.folder).catch(() => /** @type {string[]} */ ([]));
    const reports = names.filter((name) => name.endsWith(".json")).sort();
    return Promise.all(reports.map(async (name) => JSON.parse(await readFile(join(this.folder, name), "utf8"))));
  }

  /** @param {import("./device.js").Kept} kept */
  async put(kept) {
    const path = join(this.folder, `${kept.collection}-${kept.window}.json`);
    const file = await open(`${path}.new`, "w", 0o600);
    try {
      await file.writeFile(JSON.stringify(kept));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${path}.new`, path);
    const folder = await open(this.folder, "r");
    await folder.sync().finally(() => folder.close());
  }
}
