// HPKE (RFC 9180) in base mode: X25519, HKDF-SHA256, AES-128-GCM, all primitives by WebCrypto. There is no additional
// data: whatever a ciphertext must be bound to is in `info`.

import { WireError } from "./errors.js";
import { bigEndian, concat, utf8 } from "./octets.js";

/** DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. */
export const SUITE = 1;
/** Bytes that encryption adds: the encapsulated key (32) and the tag (16). */
export const OVERHEAD = 48;

const KEM_ID = concat(utf8("KEM"), bigEndian(0x20, 2));
const HPKE_ID = concat(utf8("HPKE"), bigEndian(0x20, 2), bigEndian(1, 2), bigEndian(1, 2));
const EMPTY = new Uint8Array(0);
const X25519 = { name: "X25519" };
// What stands before the 32 bytes of a private key in PKCS #8 (RFC 8410).
const PKCS8 = Uint8Array.from([0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20]);

/** @param {Uint8Array} key @param {Uint8Array} content */
async function hmac(key, content) {
  // An empty key is the key of zeros, which every browser takes.
  const raw = key.length ? key : new Uint8Array(32);
  const made = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", made, content));
}

/** @param {Uint8Array} suite @param {Uint8Array} salt @param {string} label @param {Uint8Array} secret */
function labeledExtract(suite, salt, label, secret) {
  return hmac(salt, concat(utf8("HPKE-v1"), suite, utf8(label), secret));
}

/** @param {Uint8Array} suite @param {Uint8Array} key @param {string} label @param {Uint8Array} info @param {number} size */
async function labeledExpand(suite, key, label, info, size) {
  const content = concat(bigEndian(size, 2), utf8("HPKE-v1"), suite, utf8(label), info, Uint8Array.of(1));
  return (await hmac(key, content)).slice(0, size); // one block of HKDF is enough for 32 bytes
}

/** @param {Uint8Array} shared @param {Uint8Array} encapsulated @param {Uint8Array} receiver @param {Uint8Array} info */
async function schedule(shared, encapsulated, receiver, info) {
  const prk = await labeledExtract(KEM_ID, EMPTY, "eae_prk", shared);
  const secret = await labeledExpand(KEM_ID, prk, "shared_secret", concat(encapsulated, receiver), 32);
  const context = concat(
    Uint8Array.of(0),
    await labeledExtract(HPKE_ID, EMPTY, "psk_id_hash", EMPTY),
    await labeledExtract(HPKE_ID, EMPTY, "info_hash", info),
  );
  const key = await labeledExtract(HPKE_ID, secret, "secret", EMPTY);
  const aes = await labeledExpand(HPKE_ID, key, "key", context, 16);
  return {
    nonce: await labeledExpand(HPKE_ID, key, "base_nonce", context, 12),
    key: await crypto.subtle.importKey("raw", aes, "AES-GCM", false, ["encrypt", "decrypt"]),
  };
}

/** @param {CryptoKey} secret @param {Uint8Array} publicBytes */
async function agree(secret, publicBytes) {
  const other = await crypto.subtle.importKey("raw", publicBytes, X25519, true, []);
  const shared = new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: other }, secret, 256));
  if (shared.every((byte) => byte === 0)) throw new WireError("undecryptable", "the public key is degenerate");
  return shared;
}

/** Whether this platform has the curve. Browsers without it cannot take part. */
export async function isSupported() {
  try {
    await crypto.subtle.generateKey(X25519, false, ["deriveBits"]);
    return true;
  } catch {
    return false;
  }
}

/**
 * Encrypt for the holder of the private key.
 * @param {Uint8Array} plain
 * @param {Uint8Array} receiver its public key
 * @param {Uint8Array} info
 */
export async function seal(plain, receiver, info) {
  const pair = /** @type {CryptoKeyPair} */ (await crypto.subtle.generateKey(X25519, true, ["deriveBits"]));
  const encapsulated = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
  const { key, nonce } = await schedule(await agree(pair.privateKey, receiver), encapsulated, receiver, info);
  const sealed = await crypto.subtle.encrypt({ name: "AES-GCM", iv: nonce }, key, plain);
  return concat(encapsulated, new Uint8Array(sealed));
}

/**
 * What was sealed for this key and this `info`.
 * @param {Uint8Array} sealed
 * @param {Uint8Array} secret the private key
 * @param {Uint8Array} receiver the public key that belongs to it
 * @param {Uint8Array} info
 */
export async function open(sealed, secret, receiver, info) {
  try {
    const own = await crypto.subtle.importKey("pkcs8", concat(PKCS8, secret), X25519, false, ["deriveBits"]);
    const encapsulated = sealed.slice(0, 32);
    const { key, nonce } = await schedule(await agree(own, encapsulated), encapsulated, receiver, info);
    return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv: nonce }, key, sealed.slice(32)));
  } catch {
    throw new WireError("undecryptable", "it was not sealed for this key and place");
  }
}
