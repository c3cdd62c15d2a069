package api

import (
	"context"
	"io"
	"net/http"
)

// Backup asks for a consistent copy of the server's store. The caller reads size
// bytes and closes the body; fewer are no backup.
func (c *Client) Backup(ctx context.Context) (body io.ReadCloser, size int64, err error) {
	req, err := c.request(ctx, http.MethodGet, "/v1/backup", nil, nil)
	if err != nil {
		return nil, 0, err
	}
	// Compressed on the way it would come without its length.
	req.Header.Set("Accept-Encoding", "identity")
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, 0, refusal(resp)
	}
	return resp.Body, resp.ContentLength, nil
}
