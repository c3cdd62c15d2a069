package boltstore_test

import (
	"testing"

	"pushd/ackstore/storetest"
)

func TestInbox(t *testing.T) { storetest.RunInbox(t, open) }
