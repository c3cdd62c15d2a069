// Package agentexec is the other end of pushd's line: an agent that holds one
// machine's stream, does the work, and answers for each action.
//
// It promises what protocol sections 6 and 7 ask of an agent with an instance_id:
//
//   - An action is in the journal, and Last-Event-ID has moved on, before any work
//     on it; a frame that was cut is no action.
//   - No action_id is begun twice, unless the server has taken a failure or a
//     release of it and dispatches it again. What an earlier agent left half done
//     is reported for what it is before the first subscription.
//   - A verdict is on disk before it is posted, and is posted until answered.
//   - Nothing is begun that was read from an older connection once a newer is open.
//   - When Run returns its goroutines and its child processes are gone.
//
// What it leaves to others: how work is done and how its life is judged (package
// work), the process tree (proc), output (output), the settings file (setup),
// and being a service (daemon). Here are the connection, the desk where actions
// wait and run, and the post that carries acks.
package agentexec
