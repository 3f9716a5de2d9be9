/** The shell command that submits `body`; the key, if any, is taken from the environment. */
export function curl(body: unknown): string {
  const quoted = JSON.stringify(body, null, 2).replaceAll("'", `'\\''`);
  return [
    `curl ${location.origin}/v1/jobs`,
    `-H "Authorization: Bearer $GRADMILL_API_KEY"`,
    `-H 'Content-Type: application/json'`,
    `-d '${quoted}'`,
  ].join(" \\\n  ");
}
