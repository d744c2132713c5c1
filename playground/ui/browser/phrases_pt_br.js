export const PHRASES_PT_BR = {};
