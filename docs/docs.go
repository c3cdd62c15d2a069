// Package docs holds the part of the documentation that the server serves: the
// HTTP interface as OpenAPI 3.1. That every route is in it, and every exchange
// keeps to it, is what the tests of package server see to.
package docs

import _ "embed"

// OpenAPI is openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
