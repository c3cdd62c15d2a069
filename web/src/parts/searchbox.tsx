// A search line that lives in the address, with the words it knows at hand.
import { useEffect, useRef, useState } from 'preact/hooks';
import { setQuery } from '../route.ts';
import { toggle } from '../search.ts';

interface Props {
  text: string;
  label: string;
  placeholder: string;
  chips: [word: string, label: string][];
  wrong?: string[];
}

export function SearchBox({ text, label, placeholder, chips, wrong = [] }: Props) {
  const [typed, type] = useState(text);
  const timer = useRef(0);
  useEffect(() => {
    // The address is the truth, but for what is being typed now.
    if (!timer.current) type(text);
  }, [text]);
  const set = (value: string) => {
    type(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      setQuery({ q: value.trim() });
    }, 200);
  };
  const at = (word: string) => text.split(/\s+/).includes(word);
  return (
    <search class="search">
      <input
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={typed}
        spellcheck={false}
        autocomplete="off"
        onInput={(e) => set(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === 'Enter') {
            clearTimeout(timer.current);
            timer.current = 0;
            setQuery({ q: typed.trim() });
          }
        }}
      />
      <div class="chips" role="group" aria-label="Filters">
        {chips.map(([word, name]) => (
          <button key={word} type="button" class="chip" aria-pressed={at(word)} onClick={() => setQuery({ q: toggle(text, word) })}>
            {name}
          </button>
        ))}
      </div>
      {wrong.length > 0 && (
        <p class="wrong" role="status">
          {wrong.join('; ')}
        </p>
      )}
    </search>
  );
}
