package policy

import (
	"math"
	"time"
)

// Spread on top of a wait, so that what failed together does not come back
// together (protocol section 11).
const (
	spreadPart     = 5 // a transient wait grows by up to a fifth
	quotaSpreadMin = 30 * time.Second
	quotaSpreadMax = 120 * time.Second
)

// errorWait is the wait after the n-th failure of the work itself. A setting
// above MaxErrorDelay is kept, it only does not double.
func errorWait(f Failure, n int, by Numbers) time.Duration {
	own := doubled(by.ErrorDelay, n, max(MaxErrorDelay, by.ErrorDelay))
	return max(min(f.RetryAfter, MaxRetryAfter), own)
}

// transientWait is the wait after the n-th transient failure: what the service
// asked for or our backoff, the longer one, and up to a fifth on top of it.
func transientWait(f Failure, n int, by Numbers) time.Duration {
	wait := max(min(f.RetryAfter, MaxRetryAfter), doubled(by.BackoffBase, n, by.BackoffMax))
	return plus(wait, part(wait/spreadPart, f.Jitter))
}

// quotaWait is the wait after the n-th quota failure: until the limit ends and
// 30 to 120 s more, or, when nobody knows, QuotaDelay doubled. The latter is
// spread by at most 120 s and never by more than a fifth, since short delays
// are somebody's choice.
func quotaWait(f Failure, n int, by Numbers) time.Duration {
	if f.RetryAfter > 0 {
		wait := min(f.RetryAfter, MaxQuotaRetryAfter)
		return wait + quotaSpreadMin + part(quotaSpreadMax-quotaSpreadMin, f.Jitter)
	}
	wait := doubled(by.QuotaDelay, n, max(MaxQuotaDelay, by.QuotaDelay))
	return plus(wait, part(min(wait/spreadPart, quotaSpreadMax), f.Jitter))
}

// doubled is base·2^(n-1), at most limit; it does not overflow, whatever n is.
func doubled(base time.Duration, n int, limit time.Duration) time.Duration {
	if base <= 0 {
		return 0
	}
	for ; n > 1 && base < limit; n-- {
		if base > limit/2 {
			return limit
		}
		base *= 2
	}
	return min(base, limit)
}

// part is a share of d; a share outside 0 to 1 counts as the nearer end, NaN as 0.
func part(d time.Duration, share float64) time.Duration {
	if !(share > 0) {
		return 0
	}
	return time.Duration(float64(d) * min(share, 1))
}

// plus adds two waits and stays at the longest there is.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
