// The token goes into one request and is not kept: the server answers with a cookie
// that no script can read.
import { useState } from 'preact/hooks';
import { signIn } from '../api.ts';
import { sessionChanged } from '../feed.ts';
import { Icon, Line } from '../parts/bits.tsx';

export function SignIn() {
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async (e: SubmitEvent) => {
    e.preventDefault();
    const form = e.currentTarget as HTMLFormElement;
    const token = String(new FormData(form).get('secret') ?? '').trim();
    setBusy(true);
    setError('');
    try {
      await signIn(token);
      sessionChanged();
    } catch (e) {
      setError((e as Error).message);
    }
    setBusy(false);
  };
  return (
    <main class="sign-in" id="main">
      <form onSubmit={submit}>
        <h1>pushd</h1>
        <label for="token">Token</label>
        <input id="token" name="secret" type="password" required autocomplete="current-password" autofocus spellcheck={false} />
        {error && (
          <p class="fault" role="alert">
            <Icon name="alert" />
            <span>{error}</span>
          </p>
        )}
        <button type="submit" class="primary" disabled={busy}>
          Sign in
        </button>
        <p class="muted">With scope read you see; with operate you act. To make one, on the server:</p>
        <Line text="pushctl token create --name me --scope read --scope operate" />
      </form>
    </main>
  );
}
