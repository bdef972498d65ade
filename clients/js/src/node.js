// A device under Node: the outbox is a folder with one file per report, written, synced and renamed.

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { link, mkdir, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { WireError } from "./errors.js";

export * from "./index.js";

/** A process, and when it began if the system says so: its number may come again. @param {number} pid */
async function describeProcess(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return `${pid} ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? ""}`.trim();
}

/** Whether whoever took the lock is gone, and cannot give it back. @param {string} owner */
async function isGone(owner) {
  const pid = Number(owner.split(" ")[0]);
  if (!Number.isInteger(pid) || pid < 1) return true;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ESRCH") return true;
  }
  return (await describeProcess(pid)) !== owner && existsSync("/proc/self/stat");
}

/** Make the lock, a link to a file that says whose it is; take over one whose owner was killed. @param {string} path @param {string} mine */
async function take(path, mine) {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, mine, { mode: 0o600 });
  try {
    for (let round = 0; round < 2; round++) {
      try {
        await link(draft, path);
        return true;
      } catch (error) {
        if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EEXIST") throw error;
      }
      const owner = await readFile(path, "utf8").catch(() => ""); // a folder (version 0.1), or given back by now
      if (!(await isGone(owner))) return false;
      // Whoever moves it away is the one who may take it over.
      await rename(path, `${draft}.old`).catch(() => {});
      const moved = await readFile(`${draft}.old`, "utf8").catch(() => owner);
      if (moved !== owner) await link(`${draft}.old`, path).catch(() => {}); // somebody else had been faster
      await rm(`${draft}.old`, { recursive: true, force: true });
    }
    return false;
  } finally {
    await rm(draft);
  }
}

/** @implements {import("./device.js").Outbox} */
export class FolderOutbox {
  /** @param {string} folder */
  constructor(folder) {
    this.folder = folder;
  }

  /** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
  async lock(work) {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const path = join(this.folder, "lock"), mine = await describeProcess(process.pid);
    if (!(await take(path, mine))) {
      throw new WireError("locked", `another program uses the outbox; if none does, remove ${path}`);
    }
    try {
      return await work();
    } finally {
      await rm(path, { force: true });
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
