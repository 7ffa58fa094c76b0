import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/**
 * Return the SHA-256 of the UTF-8 bytes of `text`, in hex.
 *
 * `crypto.subtle` does not exist on pages without a secure context, such as those of a Hub on plain HTTP.
 */
export function hashSource(text: string): string {
  return bytesToHex(sha256(utf8ToBytes(text)));
}
