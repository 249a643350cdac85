// The address to vote at that a desk proposes: the one of this browser's last call to vote.

const STORED = "call-address";
const CONTEST = "{contest}";

/** Remembers the address of a contest's call; of other contests it has their keys in this one's place. */
export function rememberAddress(address, key) {
  try {
    if (address) localStorage.setItem(STORED, address.replaceAll(key, CONTEST));
  } catch {
    // without storage none is proposed
  }
}

/** Returns the address for this contest; "" if there was no call yet. */
export function proposedAddress(key) {
  try {
    return (localStorage.getItem(STORED) ?? "").replaceAll(CONTEST, key);
  } catch {
    return "";
  }
}
