package clockgrpc

import (
	"context"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/settings"
)

// Settings reads and changes the settings of applications. *settings.Editor implements all but Applied.
type Settings interface {
	// Get returns the stored settings of the application, with Version 0 if it never had settings.
	Get(ctx context.Context, application string) (settings.View, error)
	// Change makes the next version.
	Change(ctx context.Context, r settings.Request) (settings.View, error)
	// Applied returns what this node applies now. It must not block.
	Applied(application string) settings.Applied
}

// errNoSettings is the error of a service without Deps.Settings.
var errNoSettings = &clock.Error{
	Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, Detail: "this server does not read settings",
}

// GetSettings serves the procedure GetSettings.
func (s *Service) GetSettings(
	ctx context.Context, request *clockdv1.GetSettingsRequest,
) (*clockdv1.GetSettingsResponse, error) {
	shown, err := s.settingsOf(ctx, request.Application, func(ctx context.Context) (settings.View, error) {
		return s.settings.Get(ctx, request.Application)
	})
	return &clockdv1.GetSettingsResponse{Settings: shown}, err
}

// ChangeSettings serves the procedure ChangeSettings.
func (s *Service) ChangeSettings(
	ctx context.Context, request *clockdv1.ChangeSettingsRequest,
) (*clockdv1.ChangeSettingsResponse, error) {
	change := settings.Request{
		Application: request.Application, Document: request.Settings, IfVersion: settings.AnyVersion,
		By: *front.Actor(callOf(ctx).request), Quotas: front.CallerOf(callOf(ctx).request).CoversAll(),
	}
	if request.IfVersion != nil {
		if change.IfVersion = *request.IfVersion; change.IfVersion < 0 {
			return nil, clock.Invalid(clock.CodeOutOfRange, "if_version", "if_version must not be negative")
		}
	}
	if change.Document == "" {
		return nil, clock.Invalid(clock.CodeRequired, "settings", `give the settings; "{}" is all defaults`)
	}
	ctx = context.WithoutCancel(ctx) // the change goes on when the client leaves
	shown, err := s.settingsOf(ctx, change.Application, func(ctx context.Context) (settings.View, error) {
		return s.settings.Change(ctx, change)
	})
	return &clockdv1.ChangeSettingsResponse{Settings: shown}, err
}

// settingsOf returns the settings that the call of the editor returns.
func (s *Service) settingsOf(
	ctx context.Context, application string, edit func(context.Context) (settings.View, error),
) (*clockdv1.ApplicationSettings, error) {
	if err := clock.ValidateApplication(application); err != nil {
		return nil, err
	}
	if s.settings == nil {
		return nil, errNoSettings
	}
	limited, cancel := context.WithTimeout(ctx, clock.RequestTimeout)
	defer cancel()
	v, err := edit(limited)
	if err != nil {
		return nil, clock.UnavailableIfLate(limited, err)
	}
	applied := s.settings.Applied(application)
	shown := &clockdv1.ApplicationSettings{
		Application: v.Application, Version: v.Version, ChangedBy: v.ChangedBy, Settings: v.Document,
		Effective: v.Effective, AppliedVersion: applied.Version, AppliedTarget: applied.Target.String(),
	}
	if v.ChangedAt != clock.NoInstant {
		shown.ChangedAt = timestampOf(v.ChangedAt)
	}
	if v.Unreadable != nil {
		shown.Unreadable = v.Unreadable.Error()
	}
	return shown, nil
}
