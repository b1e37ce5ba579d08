package run

import (
	"log/slog"
	"os"
	"os/exec"
	"strconv"

	"example.org/server/api"
)

func Start(options api.Options) *exec.Cmd {
	params := []string{"--port", "8080"} // never gpu_layers
	if options.Layers > 0 { // want gpu_layers
		params = append(params, "-gl", strconv.Itoa(options.Layers)) // want gpu_layers
	} else if options.Layers == 0 { // want gpu_layers
		params = append(params, "-gl", "0") // want gpu_layers
	}
	if options.Mapped != nil && !*options.Mapped { // want mapped
		params = append(params, "--no-map") // want mapped
	}
	cmd := exec.Command("engine", params...) // want gpu_layers
	slog.Info("starting", "cmd", cmd)
	cmd.Env = os.Environ()
	return cmd
}

func Flash() bool {
	return os.Getenv("SERVER_FLASH") != "" // want SERVER_FLASH
}
