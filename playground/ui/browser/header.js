// The page's header: the switch between light and dark, which the browser remembers, and the list of keys.

export function mount(element) {
  const $ = (name) => element.querySelector(`[data-part=${name}]`);
  const forced = new URLSearchParams(window.location.search).get('__theme');
  const kept = window.localStorage.getItem('theme');
  if (!forced && kept) document.body.classList.toggle('dark', kept === 'dark');
  $('theme').addEventListener('click', () => {
    window.localStorage.setItem('theme', document.body.classList.toggle('dark') ? 'dark' : 'light');
  });
  $('keys').addEventListener('click', () => $('dialog').showModal());
}
