// Package journal is what an agent knows across its own death: which actions it
// has received and begun, which verdicts it owes, which ids it has finished, and
// what it tells the server of itself (instance_id and Last-Event-ID).
//
// It promises that every step is on disk when its method returns, that a step is
// taken whole or not at all, and that an id which is in work or finished is told
// apart from one that is to be executed, whatever happened in between. It leaves
// to others what an execution is, and the posting of what is owed.
package journal
