// Dark, light, or as the system has it; the reader's choice is remembered.
import { effect, signal } from '@preact/signals-core';

const name = 'pushd-theme';
const order = ['system', 'dark', 'light'] as const;
type Theme = (typeof order)[number];

function remembered(): Theme {
  try {
    const was = localStorage.getItem(name) as Theme;
    return order.includes(was) ? was : 'system';
  } catch {
    return 'system'; // storage may be forbidden
  }
}

export const theme = signal<Theme>(remembered());

export function nextTheme() {
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length]!;
}

effect(() => {
  const root = document.documentElement;
  root.dataset.theme = theme.value;
  try {
    localStorage.setItem(name, theme.value);
  } catch {
    // then it holds for this visit
  }
});
