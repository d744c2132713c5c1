// What the browser keeps for a visitor: in localStorage from visit to visit, in sessionStorage while the tab is open.
// Where it may keep nothing (a frame of another site, in a private window) or has no room, it forgets.

const REFUSED = ['SecurityError', 'QuotaExceededError'];

export const recall = (place, key) => unlessRefused(() => window[place].getItem(key)) ?? null;

export const retain = (place, key, value) => unlessRefused(() => window[place].setItem(key, value));

export const forget = (place, key) => unlessRefused(() => window[place].removeItem(key));

function unlessRefused(act) {
  try {
    return act();
  } catch (error) {
    if (!REFUSED.includes(error.name)) throw error;
    return undefined;
  }
}
