// HPKE by others: they open what we seal and what stands in the vectors, and we open what they seal. They are used in
// tests only; `.ci/run` installs them under .venv/npm of the tree.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

import { Collection, open, sealInner, sealReport } from "../src/index.js";
import { seal } from "../src/hpke.js";
import { concat, fromHex, toHex, utf8 } from "../src/octets.js";
import { innerInfo, outerInfo } from "../src/report.js";

/**
 * @typedef {object} Hpke
 * @property {(plain: Uint8Array, receiver: Uint8Array, info: Uint8Array) => Promise<Uint8Array>} seal
 * @property {(sealed: Uint8Array, secret: Uint8Array, info: Uint8Array) => Promise<Uint8Array>} open
 */

/** @type {Record<string, (made: any) => Hpke>} */
const OTHERS = {
  "@hpke/core"(made) {
    const suite = new made.CipherSuite({
      kem: new made.DhkemX25519HkdfSha256(), kdf: new made.HkdfSha256(), aead: new made.Aes128Gcm(),
    });
    return {
      async seal(plain, receiver, info) {
        const recipientPublicKey = await suite.kem.deserializePublicKey(receiver);
        const sender = await suite.createSenderContext({ recipientPublicKey, info });
        return concat(new Uint8Array(sender.enc), new Uint8Array(await sender.seal(plain)));
      },
      async open(sealed, secret, info) {
        const recipientKey = await suite.kem.deserializePrivateKey(secret);
        const context = await suite.createRecipientContext({ recipientKey, enc: sealed.slice(0, 32), info });
        return new Uint8Array(await context.open(sealed.slice(32)));
      },
    };
  },
  hpke(made) {
    const suite = new made.CipherSuite(made.KEM_DHKEM_X25519_HKDF_SHA256, made.KDF_HKDF_SHA256, made.AEAD_AES_128_GCM);
    return {
      async seal(plain, receiver, info) {
        const key = await suite.DeserializePublicKey(receiver);
        const { encapsulatedSecret, ciphertext } = await suite.Seal(key, plain, { info });
        return concat(encapsulatedSecret, ciphertext);
      },
      async open(sealed, secret, info) {
        const key = await suite.DeserializePrivateKey(secret, true); // its public half is part of the schedule
        return suite.Open(key, sealed.slice(0, 32), sealed.slice(32), { info });
      },
    };
  },
};

const PLACE = new URL("../../../.venv/npm/", import.meta.url);

/** @param {string} name @returns {Promise<Hpke | null>} */
async function load(name) {
  if (!existsSync(new URL(`node_modules/${name}/package.json`, PLACE))) return null;
  const found = createRequire(fileURLToPath(new URL("here.js", PLACE))).resolve(name);
  return OTHERS[name](await import(pathToFileURL(found).href));
}

const report = JSON.parse(readFileSync(new URL("../../../vectors/report.json", import.meta.url), "utf8"));
const secrets = { analyzer: fromHex(report.secrets.analyzer), shuffler: fromHex(report.secrets.shuffler) };
const readCollection = () => Collection.read(utf8(report.document), report.collection_id);

for (const name of Object.keys(OTHERS)) {
  const other = await load(name);
  const options = { skip: other === null && `npm install --prefix .venv/npm --no-save ${name}` };
  const { open: openThere, seal: sealThere } = other ?? /** @type {Hpke} */ ({});

  test(`${name} opens the vectors, layer by layer`, options, async () => {
    const collection = await readCollection(), sealed = fromHex(report.report);
    const outer = await openThere(sealed.slice(2), secrets.shuffler, outerInfo(collection, sealed.slice(0, 2)));
    assert.equal(toHex(outer), "00000001" + report.inners.join(""));
    for (const [place, inner] of report.inners.entries()) {
      const plain = await openThere(fromHex(inner), secrets.analyzer, innerInfo(collection, report.window));
      assert.equal(toHex(plain), report.plains[place]);
      await assert.rejects(openThere(fromHex(inner), secrets.analyzer, innerInfo(collection, 0)));
    }
  });

  test(`${name} opens what we seal`, options, async () => {
    const collection = await readCollection();
    const inners = await Promise.all(report.plains.map((/** @type {string} */ each) => sealInner(collection, 1, fromHex(each))));
    const sealed = await sealReport(collection, 1, concat(...inners));
    const outer = await openThere(sealed.slice(2), secrets.shuffler, outerInfo(collection, sealed.slice(0, 2)));
    assert.equal(toHex(outer.slice(4)), toHex(concat(...inners)));
    for (const [place, inner] of inners.entries()) {
      assert.equal(toHex(await openThere(inner, secrets.analyzer, innerInfo(collection, 1))), report.plains[place]);
    }
  });

  test(`we open what ${name} seals, and nothing that was moved or changed`, options, async () => {
    const collection = await readCollection(), info = innerInfo(collection, 1);
    for (const plain of [new Uint8Array(0), ...report.plains.map(fromHex), new Uint8Array(1000).fill(7)]) {
      const sealed = await sealThere(plain, collection.analyzerKey, info);
      assert.equal(sealed.length, plain.length + 48);
      assert.equal(toHex(await open(sealed, secrets.analyzer, collection.analyzerKey, info)), toHex(plain));
      sealed[sealed.length - 1] ^= 1;
      await assert.rejects(open(sealed, secrets.analyzer, collection.analyzerKey, info), /undecryptable/);
    }
    const moved = await sealThere(fromHex(report.plains[0]), collection.analyzerKey, innerInfo(collection, 0));
    await assert.rejects(open(moved, secrets.analyzer, collection.analyzerKey, info), /undecryptable/);
  });

  test(`${name} refuses what we sealed for another place`, options, async () => {
    const collection = await readCollection();
    const sealed = await seal(utf8("yes"), collection.analyzerKey, utf8("here"));
    assert.equal(toHex(await openThere(sealed, secrets.analyzer, utf8("here"))), toHex(utf8("yes")));
    await assert.rejects(openThere(sealed, secrets.analyzer, utf8("there")));
  });
}
