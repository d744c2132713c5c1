export const PHRASES_ZH_CN = {};
